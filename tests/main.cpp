#include <csignal>

#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

#include "support/roots.h"

std::string source_root() {
  return HGT_SOURCE_ROOT;
}
std::string build_root() {
  return HGT_BUILD_ROOT;
}

int main(int argc, char** argv) {
  std::signal(SIGHUP, SIG_DFL);  // what nohup ignores, the programs started here would too
  return Catch::Session().run(argc, argv);
}
