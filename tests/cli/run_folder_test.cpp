#include "run_folder.h"

#include <cerrno>

#include <catch2/catch.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file_ops.h"

#include "support/temporary_folder.h"

using namespace hgt;

TEST_CASE("a run folder is claimed by one launcher at a time") {
  const TemporaryFolder folder;
  const RunFolder claimed = claim_run_folder(folder.path(), false);
  CHECK_THROWS_WITH(claim_run_folder(folder.path(), false),
                    Catch::Contains("is in use by another hgtrain"));
}

TEST_CASE("a lock that the file system refuses is not called in use") {
  class NoLocks : public FileOps {
    int flock(int, int) override {
      errno = ENOLCK;
      return -1;
    }
  } no_locks;
  const TemporaryFolder folder;
  const FileOpsOverride override_ops(no_locks);
  try {
    claim_run_folder(folder.path(), false);
    FAIL("it must be refused");
  } catch (const Error& e) {
    CHECK(e.kind() == ErrorKind::kConfig);
    CHECK(e.message() == "cannot lock " + folder / ".lock: No locks available");
  }
}
