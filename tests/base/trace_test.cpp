#include "hgtrain/base/trace.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "hgtrain/base/clock.h"

using namespace hgt;

namespace {

/// Records from nothing on, and no longer than it lives.
struct Recorded {
  explicit Recorded(Recording what) {
    forget_spans();
    record_spans(what);
  }
  ~Recorded() { record_spans(Recording::kOff); }
};

/// What the threads of this name did.
std::vector<SpanRecord> spans_of(std::string_view thread) {
  std::vector<SpanRecord> found;
  for (const ThreadSpans& one : recorded_spans())
    if (one.name == thread) found.insert(found.end(), one.spans.begin(), one.spans.end());
  return found;
}

void on_thread(const char* name, void (*work)()) {
  std::thread([=] {
    name_thread(name);
    work();
  }).join();
}

}  // namespace

TEST_CASE(
    "spans of a thread come in the order of their beginnings, each within the one around it") {
  const Recorded recorded(Recording::kAll);
  const std::int64_t before_ns = now_ns();
  on_thread("worker", [] {
    const Span step = Span::phase("step", 7);
    { const Span gemm("gemm", {.flops = 128}); }
    const Span norm("norm", {.bytes = 64});
  });
  const auto spans = spans_of("worker");
  REQUIRE(spans.size() == 3);
  CHECK(spans[0].name == std::string_view("step"));
  CHECK(spans[0].number == 7);
  CHECK(spans[0].kind == SpanRecord::Kind::kPhase);
  CHECK(spans[1].flops == 128);
  CHECK(spans[2].bytes == 64);
  CHECK(spans[1].kind == SpanRecord::Kind::kOp);
  CHECK(spans[0].depth == 0);
  CHECK(spans[1].depth == 1);
  CHECK(spans[2].depth == 1);
  CHECK(before_ns <= spans[0].begin_ns);
  CHECK(spans[0].begin_ns <= spans[1].begin_ns);
  CHECK(spans[1].end_ns <= spans[2].begin_ns);
  CHECK(spans[2].end_ns <= spans[0].end_ns);
  CHECK(spans[0].end_ns <= now_ns());
}

TEST_CASE("a recording of nothing keeps no span, and one of rare spans keeps no op") {
  const auto work = [] {
    const Span evaluation = Span::rare("evaluate", 3);
    const Span op("gemm");
  };
  {
    const Recorded recorded(Recording::kOff);
    on_thread("off", work);
    CHECK(spans_of("off").empty());
  }
  const Recorded recorded(Recording::kRare);
  on_thread("rare", work);
  REQUIRE(spans_of("rare").size() == 1);
  CHECK(spans_of("rare")[0].number == 3);
}

TEST_CASE("a span that is open has no end yet, and one that began unrecorded leaves nothing") {
  const Recorded recorded(Recording::kAll);
  on_thread("open", [] {
    const Span span("open");
    CHECK(spans_of("open").at(0).end_ns == 0);
    record_spans(Recording::kOff);
    const Span later("later");
  });
  REQUIRE(spans_of("open").size() == 1);
  CHECK(spans_of("open")[0].end_ns > 0);
}

TEST_CASE("a marker sees both ends of its thread's ops, and nothing else") {
  struct Marker final : OpMarker {
    void begin(SpanRecord& op) override { seen += std::string("<") + op.name; }
    void end(SpanRecord& op) noexcept override { seen += std::string(op.name) + ">"; }
    std::string seen;
  };
  const Recorded recorded(Recording::kAll);
  on_thread("marked", [] {
    Marker marker;
    mark_ops(&marker);
    {
      const Span phase = Span::phase("phase");
      const Span outer("outer"), inner("inner");
      on_thread("other", [] { const Span span("other"); });
    }
    mark_ops(nullptr);
    { const Span span("later"); }
    CHECK(marker.seen == "<outer<innerinner>outer>");
  });
}

TEST_CASE("a thread takes the place of one of the same name that has ended") {
  const Recorded recorded(Recording::kAll);
  for (int i = 0; i < 3; ++i) on_thread("reader", [] { const Span span("read"); });
  const auto threads = recorded_spans();
  CHECK(std::count_if(threads.begin(), threads.end(), [](const ThreadSpans& t) {
          return t.name == std::string_view("reader");
        }) == 1);
  CHECK(spans_of("reader").size() == 3);
}

TEST_CASE("spans for which there is no room are counted, and dropped with the rest") {
  const Recorded recorded(Recording::kAll);
  on_thread("busy", [] {
    for (int i = 0; i < (1 << 20) + 5; ++i) const Span span("short");
  });
  CHECK(lost_spans() == 5);
  CHECK(spans_of("busy").size() == 1 << 20);
  forget_spans();
  CHECK(lost_spans() == 0);
  CHECK(spans_of("busy").empty());
}

namespace {

std::vector<std::string> g_observed;

}  // namespace

TEST_CASE("an observer sees every span begin and end, recorded or not") {
  observe_spans([](const char* name) { g_observed.push_back(name); },
                [] { g_observed.push_back("end"); });
  {
    const Span outer = Span::phase("outer");
    const Span inner("inner");
  }
  observe_spans(nullptr, nullptr);
  { const Span unseen("unseen"); }
  CHECK(g_observed == std::vector<std::string>{"outer", "inner", "end", "end"});
}
