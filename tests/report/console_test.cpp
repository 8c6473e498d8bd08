#include "hgtrain/report/console.h"

#include <cmath>
#include <cstdlib>
#include <pty.h>
#include <sstream>
#include <unistd.h>

#include <catch2/catch.hpp>

using namespace hgt;

namespace {

std::int64_t fake_ns = 0;
std::int64_t fake_clock() {
  return fake_ns;
}

StepRecord shown_record(std::int64_t step) {
  StepRecord r;
  r.step = step;
  r.loss = 2.41372;
  r.grad_norm = 0.834;
  r.lr = 3e-4;
  r.step_ms = 100;
  r.tokens = 1234;
  r.tokens_per_sec = 12345;
  r.mem_bytes = 512LL << 20;
  r.mem_peak_bytes = 600LL << 20;
  return r;
}

struct Screen {
  explicit Screen(ConsoleStyle style = {}, std::int64_t steps_per_print = 1)
      : console(out, style,
                {{.total_steps = 2000}, steps_per_print, fake_clock, [this](std::string_view line) {
                   copy += line;
                 }}) {}
  std::string take() {
    std::string text = out.str();
    out.str("");
    return text;
  }
  std::ostringstream out;
  std::string copy;
  Console console;
};

}  // namespace

TEST_CASE("a step is one plain line with an ETA") {
  Screen s;
  s.console.started(0, "");
  s.console.step(shown_record(100));
  CHECK(s.take() ==
        "step  100/2000  loss 2.4137  grad_norm 0.83  lr 3.00e-04  12.3k tok/s  mem 512 MiB  eta "
        "3:10\n");
}

TEST_CASE("mfu is shown only if it is known, and the last step has no ETA") {
  Screen s;
  StepRecord r = shown_record(2000);
  r.mfu = 0.612;
  s.console.step(r);
  const std::string text = s.take();
  CHECK(text.find("mfu 61.2%") != std::string::npos);
  CHECK(text.find("eta") == std::string::npos);
}

TEST_CASE("steps_per_print thins the lines; evaluations and the last step are always printed") {
  Screen s({}, 10);
  for (std::int64_t step = 1; step <= 9; ++step) s.console.step(shown_record(step));
  CHECK(s.take().empty());
  s.console.step(shown_record(10));
  CHECK(s.take().starts_with("step   10/2000"));
  StepRecord r = shown_record(11);
  r.eval_loss = 2.0;
  s.console.step(r);
  CHECK(s.take() == "eval   11/2000  loss 2.0000  perplexity 7.389  (best so far)\n");
  r.step = 12;
  r.eval_loss = 1.0;
  s.console.step(r);
  CHECK(s.take() == "eval   12/2000  loss 1.0000  perplexity 2.718  (best so far)\n");
  r.step = 13;
  r.eval_loss = 1.5;
  s.console.step(r);
  CHECK(s.take() == "eval   13/2000  loss 1.5000  perplexity 4.482\n");
}

TEST_CASE("a step that ends a minute after the line before is printed, unless no step is to be") {
  for (const std::int64_t steps_per_print : {10, 0}) {
    fake_ns = 0;
    Screen s({}, steps_per_print);
    std::string printed;
    for (std::int64_t step = 1; step <= 7; ++step) {
      fake_ns += 25'000'000'000;
      s.console.step(shown_record(step));
      printed += s.take().substr(0, 11);
    }
    CHECK(printed == (steps_per_print > 0 ? "step    3/2step    6/2" : ""));
  }
  fake_ns = 0;
}

TEST_CASE("resume, checkpoints and notices have their line") {
  Screen s;
  s.console.started(100, "runs/a/checkpoints/step_00000100");
  s.console.checkpoint(150, "runs/a/checkpoints/step_00000150");
  s.console.notice("hgtrain: note: x");
  CHECK(s.take() ==
        "resuming from step 100: runs/a/checkpoints/step_00000100\n"
        "save  150/2000  runs/a/checkpoints/step_00000150\n"
        "hgtrain: note: x\n");
}

TEST_CASE("what happens before the first step is shown on a terminal, and only there") {
  for (const bool live : {true, false}) {
    fake_ns = 0;
    Screen s({.live = live});
    s.console.starting();
    fake_ns = 12'000'000'000;
    s.take();
    s.console.phase("loading");
    CHECK(s.take() == (live ? "\r\x1b[Kbefore the first step: loading  0:12" : ""));
    s.console.step(shown_record(1));
    s.take();
    s.console.phase("forward");
    CHECK(s.take().empty());
  }
}

TEST_CASE("a progress line that is too long leaves out the bar first, and never cuts a number") {
  const auto drawn = [](int width) {
    fake_ns = 0;
    Screen s({.live = true, .color = false, .width = width}, 0);
    StepRecord r = shown_record(700);
    r.mfu = 0.302;
    s.console.step(r);
    return s.take().substr(4);
  };
  CHECK(drawn(200) ==
        "step  700/2000  35%  [=======             ]  loss 2.4137  grad_norm 0.83  lr 3.00e-04  "
        "12.3k tok/s  mfu 30.2%  mem 512 MiB  eta 2:10");
  CHECK(drawn(80) == "step  700/2000  35%  loss 2.4137  grad_norm 0.83  12.3k tok/s  eta 2:10");
  CHECK(drawn(40) == "step  700/2000  loss 2.4137  eta 2:10");
}

TEST_CASE("numbers that are large or not finite are still readable") {
  Screen s;
  StepRecord r = shown_record(1);
  r.loss = 3.2e30;
  r.grad_norm = std::nan("");
  r.eval_loss = -std::nan("");
  s.console.step(r);
  const std::string text = s.take();
  CHECK(text.find("loss 3.20e+30  grad_norm nan") != std::string::npos);
  CHECK(text.find("loss nan  perplexity nan\n") != std::string::npos);
  for (const auto& [loss, words] :
       std::vector<std::pair<double, std::string>>{{6.9078, "loss 6.9078  perplexity 1000"},
                                                   {5.0689, "loss 5.0689  perplexity 159.0"},
                                                   {1.2975, "loss 1.2975  perplexity 3.660"},
                                                   {9.21, "loss 9.2100  perplexity 9997"},
                                                   {9.574, "loss 9.5740  perplexity 14386"},
                                                   {40, "loss 40.0000  perplexity 2.35e+17"},
                                                   {20000, "loss 20000.0000  perplexity inf"},
                                                   {3.25e8, "loss 3.25e+08  perplexity inf"}}) {
    r.eval_loss = loss;
    s.console.step(r);
    CHECK(s.take().find(words) != std::string::npos);
  }
}

TEST_CASE("the copy has the lines without colour and progress line") {
  Screen s({.live = true, .color = true, .width = 80}, 10);
  s.console.started(9, "c");
  s.console.step(shown_record(10));
  s.console.checkpoint(10, "d");
  s.console.notice("two\nlines\n");
  CHECK(s.copy ==
        "resuming from step 9: c\n"
        "step   10/2000  loss 2.4137  grad_norm 0.83  lr 3.00e-04  12.3k tok/s  mem 512 MiB  eta "
        "3:19\n"
        "save   10/2000  d\n"
        "two\nlines\n");
  CHECK(s.take().find("\x1b[2msave \x1b[0m  10/2000  d\n") != std::string::npos);
}

TEST_CASE("the summary notes a loss that rose") {
  Screen s({}, 0);
  StepRecord r = shown_record(1);
  s.console.step(r);
  r.step = 2;
  r.loss += 0.5;
  s.console.step(r);
  s.console.finished("done", "");
  CHECK(s.take().find("the loss rose") == std::string::npos);
  r.step = 3;
  r.loss += 1;
  s.console.step(r);
  s.console.finished("done", "");
  CHECK(s.take().find("  note     the loss rose: the learning rate may be too high\n") !=
        std::string::npos);
}

TEST_CASE("the best evaluation is known across a resume") {
  Screen s({}, 0);
  s.console.started(100, "c", 1.5);
  s.take();
  StepRecord r = shown_record(101);
  r.eval_loss = 1.6;
  s.console.step(r);
  CHECK(s.take() == "eval  101/2000  loss 1.6000  perplexity 4.953\n");
  s.console.finished("done", "");
  CHECK(s.take().find("evaluation 1.6000 (best 1.5000 before it was resumed)") !=
        std::string::npos);
  r.step = 102;
  r.eval_loss = 1.4;
  s.console.step(r);
  CHECK(s.take() == "eval  102/2000  loss 1.4000  perplexity 4.055  (best so far)\n");
}

TEST_CASE("a terminal keeps one progress line below the lines") {
  fake_ns = 0;
  Screen s({.live = true, .color = false, .width = 40}, 100);
  s.console.step(shown_record(1));
  CHECK(s.take() == "\r\x1b[Kstep    1/2000  loss 2.4137  eta 3:20");
  s.console.step(shown_record(2));
  CHECK(s.take().empty());  // drawn at most ten times a second
  fake_ns += 200'000'000;
  s.console.step(shown_record(3));
  CHECK(s.take().starts_with("\r\x1b[Kstep"));
  s.console.notice("hello");
  CHECK(s.take() == "\r\x1b[Khello\n");
  s.console.notice("again");
  CHECK(s.take() == "again\n");
}

TEST_CASE("the end has averages and peaks") {
  Screen s;
  for (std::int64_t step = 1; step <= 4; ++step) {
    StepRecord r = shown_record(step);
    r.loss = 5.0 - static_cast<double>(step);
    r.comm_ms = 2;
    r.mfu = 0.5;
    if (step >= 3) r.eval_loss = static_cast<double>(step);
    s.console.step(r);
  }
  s.take();
  s.console.finished("done: 4 steps in 0:01", "runs/a");
  CHECK(s.take() ==
        "done: 4 steps in 0:01\n"
        "  loss     4.0000 to 1.0000, evaluation 4.0000 (best 3.0000 at step 3)\n"
        "  average  12.3k tok/s, 100.0 ms a step (communication 2.0 ms, waiting for data 0.0 ms), "
        "mfu "
        "50.0%\n"
        "  peak     12.3k tok/s, memory 600 MiB\n"
        "  run      runs/a\n");
}

TEST_CASE("pipes, TERM=dumb and NO_COLOR are respected") {
  int pipe_fd[2], master = -1, terminal = -1;
  REQUIRE(::pipe(pipe_fd) == 0);
  winsize size{24, 132, 0, 0};
  REQUIRE(::openpty(&master, &terminal, nullptr, nullptr, &size) == 0);
  ::setenv("TERM", "xterm", 1);
  ::unsetenv("NO_COLOR");
  CHECK(!ConsoleStyle::of(pipe_fd[1]).live);
  CHECK(ConsoleStyle::of(terminal).live);
  CHECK(ConsoleStyle::of(terminal).color);
  CHECK(ConsoleStyle::of(terminal).width == 132);
  ::setenv("NO_COLOR", "1", 1);
  CHECK(ConsoleStyle::of(terminal).live);
  CHECK(!ConsoleStyle::of(terminal).color);
  ::setenv("TERM", "dumb", 1);
  CHECK(!ConsoleStyle::of(terminal).live);
  for (int fd : {pipe_fd[0], pipe_fd[1], master, terminal}) ::close(fd);
}
