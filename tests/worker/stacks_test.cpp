#include "stacks.h"

#include <csignal>
#include <semaphore>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <fmt/format.h>

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
#ifndef __SANITIZE_THREAD__  // TSan calls the handler later, elsewhere
  CHECK(stacks.find("  wait_here_for_the_test(") != std::string::npos);
#endif
}

void crash_here_for_the_test() {
  std::raise(SIGSEGV);
}

TEST_CASE("a crash writes its stack, and ends the process as it would have") {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t process = fork();
  if (process == 0) {
    std::signal(SIGSEGV, SIG_DFL);  // the test program reports it
    dup2(ends[1], STDERR_FILENO);
    show_stack_of_crash();
    crash_here_for_the_test();
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char buffer[4096];
  for (ssize_t bytes; (bytes = read(ends[0], buffer, sizeof buffer)) > 0;)
    text.append(buffer, static_cast<std::size_t>(bytes));
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(process, &status, 0) == process);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGSEGV);
  CHECK(text.starts_with(fmt::format("crashed with SIGSEGV in thread {}\n", process)));
  CHECK(text.find("crash_here_for_the_test") != std::string::npos);
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
