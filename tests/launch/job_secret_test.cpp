#include <cstdlib>
#include <fstream>
#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "hgtrain/launch/rendezvous.h"

#include "support/refusal.h"
#include "support/temporary_folder.h"

using namespace hgt;

TEST_CASE("a job secret comes from a private file, or from a variable that no worker gets") {
  const TemporaryFolder folder;
  const std::string path = folder / "secret";
  std::ofstream(path) << "0123456789abcdef\n";
  chmod(path.c_str(), 0600);
  CHECK(take_job_secret({.job_secret_file = path}) == "0123456789abcdef");
  for (const char* name : {"HGTRAIN_JOB_SECRET", "MY_SECRET"}) {
    setenv(name, "fedcba9876543210", 1);
    const char* const value = getenv(name);
    CHECK(take_job_secret({.job_secret_env = name}) == "fedcba9876543210");
    CHECK(getenv(name) == nullptr);
    CHECK(value[0] == '\0');
  }
  setenv("HGTRAIN_JOB_SECRET", "fedcba9876543210", 1);
  setenv("LIST_OF_MPIRUN", "HGTRAIN_JOB_SECRET=fedcba9876543210", 1);
  CHECK(take_job_secret({.job_secret_file = path}) == "0123456789abcdef");
  CHECK(getenv("HGTRAIN_JOB_SECRET") == nullptr);
  CHECK(getenv("LIST_OF_MPIRUN") == nullptr);
}

TEST_CASE("a variable that is too short for a secret takes no other variable with it") {
  const TemporaryFolder folder;
  const std::string path = folder / "secret";
  std::ofstream(path) << "0123456789abcdef\n";
  chmod(path.c_str(), 0600);
  setenv("HGTRAIN_JOB_SECRET", "a", 1);
  setenv("OTHER", "has an a", 1);
  CHECK(take_job_secret({.job_secret_file = path}) == "0123456789abcdef");
  CHECK(getenv("HGTRAIN_JOB_SECRET") == nullptr);
  CHECK(std::string(getenv("OTHER")) == "has an a");
}

TEST_CASE("a job secret that is missing, short or readable by others is refused") {
  const TemporaryFolder folder;
  const std::string path = folder / "secret";
  const auto says = [](const HostFlags& flags) { return refusal([&] { take_job_secret(flags); }); };
  CHECK(has(says({}), "--job_secret_file FILE on every node"));
  CHECK(has(says({.job_secret_env = "NOT_SET"}), "no job secret in the variable NOT_SET"));
  CHECK(has(says({.job_secret_file = path}), "there is no file " + path));
  std::ofstream(path) << "0123456789abcdef";
  chmod(path.c_str(), 0640);
  CHECK(has(says({.job_secret_file = path}), "chmod 600"));
  chmod(path.c_str(), 0600);
  std::ofstream(path) << "short\n";
  CHECK(has(says({.job_secret_file = path}), "has 5 bytes"));
}
