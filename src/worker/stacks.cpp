#include "stacks.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <filesystem>
#include <memory>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

#include <fmt/format.h>

namespace hgt {
namespace {

constexpr int kDepth = 64;
constexpr int kOwnFrames = 2;  // of the handler, and of the kernel's return from it
constexpr std::size_t kMaxName = 120;
constexpr std::int64_t kAnswerNs = 200'000'000;

/// A request to a thread for its stack. It is never freed, because a thread may still answer after
/// the time limit.
struct Question {
  std::array<void*, kDepth> frames;
  int depth = 0;
  sem_t answered;
};

void answer(int, siginfo_t* info, void*) {
  const int error_number = errno;
  auto* const question = static_cast<Question*>(info->si_value.sival_ptr);
  question->depth = ::backtrace(question->frames.data(), kDepth);
  ::sem_post(&question->answered);
  errno = error_number;
}

bool ask(pid_t thread, Question& question) {
  siginfo_t info{};
  info.si_code = SI_QUEUE;
  info.si_pid = ::getpid();
  info.si_uid = ::getuid();
  info.si_value.sival_ptr = &question;
  if (::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), thread, SIGRTMIN, &info) != 0) return false;
  timespec until{};
  ::clock_gettime(CLOCK_REALTIME, &until);
  const std::int64_t ns = until.tv_nsec + kAnswerNs;
  until.tv_sec += ns / 1'000'000'000;
  until.tv_nsec = ns % 1'000'000'000;
  int result = 0;
  while ((result = ::sem_timedwait(&question.answered, &until)) != 0 && errno == EINTR) {
  }
  return result == 0;
}

/// "hgt::Trainer::update()+0x12", or "libc.so.6+0x91234" for a function without a name.
std::string name_of(const void* address) {
  Dl_info info{};
  if (::dladdr(address, &info) == 0) return fmt::format("{}", address);
  const auto after = [address](const void* base) {
    return reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(base);
  };
  if (!info.dli_sname)
    return fmt::format("{}+{:#x}", std::filesystem::path(info.dli_fname).filename().string(),
                       after(info.dli_fbase));
  const std::unique_ptr<char, decltype(&std::free)> plain(
      abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, nullptr), &std::free);
  std::string name = plain ? plain.get() : info.dli_sname;
  if (name.size() > kMaxName) name = name.substr(0, kMaxName) + " ...";
  return fmt::format("{}+{:#x}", name, after(info.dli_saddr));
}

std::string stack_of(pid_t thread) {
  auto* const question = new Question;
  ::sem_init(&question->answered, 0, 0);
  if (!ask(thread, *question)) {
    static auto* const unanswered = new std::vector<Question*>;
    unanswered->push_back(question);  // the thread may still answer, even when the process ends
    return fmt::format("thread {} does not answer\n", thread);
  }
  std::string out = fmt::format("thread {} is in\n", thread);
  for (int i = question->depth - 1; i >= std::min(kOwnFrames, question->depth); --i)
    out += fmt::format("  {}\n", name_of(question->frames[static_cast<std::size_t>(i)]));
  delete question;
  return out;
}

/// What backtrace() needs is loaded when it is first called, which a handler must not do.
void prepare_backtrace() {
  void* frame = nullptr;
  ::backtrace(&frame, 1);
}

/// Allocates no memory: the crash may have been in malloc().
void show_crash(int signal, siginfo_t* info, void*) {
  std::array<char, 128> text;
  const auto say = [&](auto format, auto... values) {
    const auto end = fmt::format_to_n(text.data(), text.size(), format, sigabbrev_np(signal),
                                      ::gettid(), values...);
    (void)!::write(STDERR_FILENO, text.data(), end.size);
  };
  if (info->si_code > 0)
    say(FMT_STRING("crashed with SIG{} in thread {}, at address {}\n"), info->si_addr);
  else if (info->si_pid == ::getpid())
    say(FMT_STRING("crashed with SIG{} in thread {}\n"));
  else
    say(FMT_STRING("got SIG{} in thread {}, from process {}\n"), info->si_pid);
  std::array<void*, kDepth> frames;
  const int depth = ::backtrace(frames.data(), kDepth);
  const int own = std::min(kOwnFrames, depth);
  ::backtrace_symbols_fd(frames.data() + own, depth - own, STDERR_FILENO);
  ::raise(signal);  // its default action again
}

}  // namespace

void show_stack_of_crash() {
  alignas(16) static std::array<std::byte, 64 << 10> memory;
  stack_t stack{}, other_stack{};
  stack.ss_sp = memory.data();
  stack.ss_size = memory.size();
  ::sigaltstack(nullptr, &other_stack);
  if (other_stack.ss_flags & SS_DISABLE) ::sigaltstack(&stack, nullptr);
  prepare_backtrace();
  struct sigaction action {};
  action.sa_sigaction = show_crash;
  action.sa_flags = SA_SIGINFO | SA_RESETHAND | SA_NODEFER | SA_ONSTACK;
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) {
    struct sigaction other {};
    ::sigaction(signal, nullptr, &other);
    if (other.sa_handler == SIG_DFL) ::sigaction(signal, &action, nullptr);
  }
}

std::string stacks_of_threads() {
  prepare_backtrace();
  struct sigaction action {};
  action.sa_sigaction = answer;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigaction(SIGRTMIN, &action, nullptr);
  std::vector<pid_t> threads;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task"))
    threads.push_back(std::atoi(entry.path().filename().c_str()));
  std::ranges::sort(threads);
  std::ranges::stable_partition(threads, [](pid_t thread) { return thread != ::getpid(); });
  std::string out;
  for (const pid_t thread : threads)
    if (thread != ::gettid()) out += stack_of(thread);
  return out;
}

}  // namespace hgt
