#include "stacks.h"

#include <csignal>
#include <semaphore>
#include <string>
#include <thread>

#include <catch2/catch.hpp>

using namespace hgt;

// Not in an anonymous namespace: that would have no name in a stack.
void wait_here_for_the_test(std::binary_semaphore& there, std::binary_semaphore& go_on) {
  there.release();
  go_on.acquire();
}

TEST_CASE("the stack of each thread says where it is, and the thread continues") {
  std::binary_semaphore there(0), go_on(0);
  std::string stacks;
  {
    std::jthread waiting([&] { wait_here_for_the_test(there, go_on); });
    there.acquire();
    stacks = stacks_of_threads();
    go_on.release();
  }
  CHECK(stacks.find("  wait_here_for_the_test(") != std::string::npos);
}

TEST_CASE("a thread that does not answer is named") {
  std::binary_semaphore there(0), go_on(0);
  std::string stacks;
  {
    std::jthread deaf([&] {
      sigset_t all;
      sigfillset(&all);
      pthread_sigmask(SIG_BLOCK, &all, nullptr);
      wait_here_for_the_test(there, go_on);
    });
    there.acquire();
    stacks = stacks_of_threads();
    go_on.release();
  }
  CHECK(stacks.find(" does not answer\n") != std::string::npos);
}
