#include "hgtrain/report/metrics_writer.h"

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/file_ops.h"
#include "hgtrain/base/json.h"

#include "support/failing_file_ops.h"
#include "support/temporary_folder.h"

using namespace hgt;

namespace {

struct RunDir : TemporaryFolder {
  std::string read(const std::string& file) const {
    std::ostringstream text;
    text << std::ifstream(*this / file).rdbuf();
    return text.str();
  }
  void append(const std::string& file, const std::string& text) const {
    std::ofstream(*this / file, std::ios::app) << text;
  }
  std::vector<std::string> lines(const std::string& file) const {
    std::istringstream in(read(file));
    std::vector<std::string> out;
    for (std::string line; std::getline(in, line);) out.push_back(line);
    return out;
  }
};

StepRecord written_record(std::int64_t step) {
  StepRecord r;
  r.step = step;
  r.loss = 5.0 - 0.1 * static_cast<double>(step);
  r.grad_norm = 0.5;
  r.lr = 3e-4;
  r.step_ms = 12.5;
  r.elapsed_s = 0.25 * static_cast<double>(step);
  r.tokens = 4096;
  r.tokens_per_sec = 327680;
  r.consumed_samples = 32 * step;
  r.samples_per_sec = 2560;
  r.mem_bytes = 1000;
  r.mem_peak_bytes = 2000;
  return r;
}

void write_steps(const RunDir& dir, std::int64_t resumed, std::int64_t last) {
  MetricsWriter writer(dir.path(), resumed);
  for (std::int64_t step = resumed + 1; step <= last; ++step)
    CHECK(!writer.write(written_record(step)));
}

}  // namespace

TEST_CASE("a step is one object with exactly the documented names, in their order") {
  RunDir dir;
  StepRecord r = written_record(1);
  r.mfu = 0.25;
  r.eval_loss = 4.5;
  MetricsWriter(dir.path(), 0).write(r);
  CHECK(
      dir.read("metrics.jsonl") ==
      R"({"step":1,"loss":4.9,"grad_norm":0.5,"lr":0.0003,"step_ms":12.5,"elapsed_s":0.25,)"
      R"("tokens":4096,"tokens_per_sec":327680.0,"consumed_samples":32,"samples_per_sec":2560.0,"mem_bytes":1000,)"
      R"("mem_peak_bytes":2000,"comm_ms":0.0,"sent_bytes":0.0,"data_wait_ms":0.0,"mfu":0.25,"eval_loss":4.5})"
      "\n");
  CHECK(dir.read("metrics.csv") ==
        "step,loss,grad_norm,lr,step_ms,elapsed_s,tokens,tokens_per_sec,consumed_samples,samples_"
        "per_sec,"
        "mem_bytes,mem_peak_bytes,comm_ms,sent_bytes,data_wait_ms,mfu,eval_loss,loss_scale\n"
        "1,4.9,0.5,0.0003,12.5,0.25,4096,327680,32,2560,1000,2000,0,0,0,0.25,4.5,\n");
}

TEST_CASE("numbers that are not finite or not known are null, and read back so") {
  RunDir dir;
  StepRecord r = written_record(1);
  r.loss = NAN;
  r.grad_norm = INFINITY;
  MetricsWriter(dir.path(), 0).write(r);
  const auto json = parse_json<nlohmann::json>(dir.read("metrics.jsonl"));
  CHECK(json["loss"].is_null());
  CHECK(json["grad_norm"].is_null());
  CHECK(json["mfu"].is_null());
  CHECK(!json.contains("eval_loss"));
  CHECK(dir.lines("metrics.csv")[1] ==
        "1,,,0.0003,12.5,0.25,4096,327680,32,2560,1000,2000,0,0,0,,,");
  const auto back = json.get<StepRecord>();
  CHECK(std::isnan(back.loss));
  CHECK(!back.mfu);
  CHECK(!back.eval_loss);
}

TEST_CASE("a record survives the control channel") {
  StepRecord r = written_record(7);
  r.eval_loss = 1.25;
  const auto back = parse_json<nlohmann::json>(nlohmann::json(r).dump()).get<StepRecord>();
  CHECK(back.step == 7);
  CHECK(back.loss == r.loss);
  CHECK(back.consumed_samples == r.consumed_samples);
  CHECK(back.eval_loss == 1.25);
}

TEST_CASE("on resume both files are cut back so that each step occurs once") {
  RunDir dir;
  write_steps(dir, 0, 10);
  write_steps(dir, 6, 12);
  const auto jsonl = dir.lines("metrics.jsonl"), csv = dir.lines("metrics.csv");
  REQUIRE(jsonl.size() == 12);
  REQUIRE(csv.size() == 13);
  for (std::size_t i = 0; i < 12; ++i) {
    CHECK(parse_json<nlohmann::json>(jsonl[i])["step"] == i + 1);
    CHECK(csv[i + 1].starts_with(std::to_string(i + 1) + ","));
  }
}

TEST_CASE("a fresh start leaves nothing of an older run") {
  RunDir dir;
  write_steps(dir, 0, 3);
  MetricsWriter writer(dir.path(), 0);
  CHECK(dir.read("metrics.jsonl").empty());
  CHECK(dir.lines("metrics.csv").size() == 1);
}

TEST_CASE("the steps of a branch that the run leaves are kept aside") {
  RunDir dir;
  write_steps(dir, 0, 10);
  const auto old = dir.read("metrics.jsonl");
  {
    MetricsWriter writer(dir.path(), 6, {.until_resumed_step = true});
    CHECK(writer.kept_aside() ==
          "the run begins a branch: the metrics of its other steps are kept in " +
              (dir / "metrics.superseded.jsonl"));
    CHECK(writer.elapsed_s() == 0);
    CHECK(!writer.write(written_record(7)));
  }
  CHECK(dir.read("metrics.superseded.jsonl") == old);
  CHECK(dir.lines("metrics.jsonl").size() == 1);
  CHECK(dir.lines("metrics.csv").size() == 2);
  // It starts there again, having saved nothing: the step it made is its own.
  CHECK(!MetricsWriter(dir.path(), 6, {.until_resumed_step = true}).kept_aside());
  CHECK(dir.lines("metrics.jsonl").empty());
  write_steps(dir, 6, 8);
  CHECK(MetricsWriter(dir.path(), 7, {.until_resumed_step = true})
            .kept_aside()
            ->ends_with("superseded-2.jsonl"));
  // But steps after it are another branch's if the run leaves one.
  write_steps(dir, 6, 8);
  CHECK(MetricsWriter(dir.path(), 6, {.until_resumed_step = true, .after_resumed_step = true})
            .kept_aside()
            ->ends_with("superseded-3.jsonl"));
}

TEST_CASE(
    "a run that goes back keeps the steps up to there, and those of its branch before aside") {
  RunDir dir;
  write_steps(dir, 0, 10);
  const auto old = dir.read("metrics.jsonl");
  {
    MetricsWriter writer(dir.path(), 6, {.after_resumed_step = true});
    CHECK(writer.kept_aside() == "the run goes back: the metrics of its later steps are kept in " +
                                     (dir / "metrics.superseded.jsonl"));
    CHECK(writer.elapsed_s() == 1.5);
    CHECK(!writer.write(written_record(7)));
  }
  CHECK(dir.read("metrics.superseded.jsonl") == old);
  CHECK(old.starts_with(dir.read("metrics.jsonl")));
  CHECK(dir.lines("metrics.jsonl").size() == 7);
  CHECK(dir.lines("metrics.csv").size() == 8);
  CHECK(!MetricsWriter(dir.path(), 7, {.after_resumed_step = true}).kept_aside());
}

TEST_CASE("a kill at any call while metrics are kept aside loses no line") {
  int calls = 0;
  {
    RunDir dir;
    write_steps(dir, 0, 10);
    FailingFileOps counting;
    const FileOpsOverride use(counting);
    MetricsWriter(dir.path(), 6, {.after_resumed_step = true});
    calls = counting.calls();
  }
  for (int k = 0; k < calls; ++k) {
    CAPTURE(k);
    RunDir dir;
    write_steps(dir, 0, 10);
    const auto old = dir.read("metrics.jsonl");
    FailingFileOps dead(k, EIO, /*for_good=*/true);
    try {
      const FileOpsOverride use(dead);
      MetricsWriter(dir.path(), 6, {.after_resumed_step = true});
    } catch (const Error&) {
    }
    MetricsWriter(dir.path(), 6, {.after_resumed_step = true});
    CHECK(dir.read("metrics.superseded.jsonl") == old);
    CHECK(dir.lines("metrics.jsonl").size() == 6);
    CHECK(!std::filesystem::exists(dir / "metrics.next.jsonl"));
  }
}

TEST_CASE("a full disk does not keep a run with damaged metrics from starting") {
  RunDir dir;
  write_steps(dir, 0, 4);
  dir.append("metrics.jsonl", "damage\n");
  struct FullDisk final : FileOps {
    ssize_t write(int, const void*, std::size_t) override {
      errno = ENOSPC;
      return -1;
    }
  } full;
  std::optional<MetricsWriter> writer;
  {
    const FileOpsOverride use(full);
    writer.emplace(dir.path(), 4);
    CHECK_THAT(writer->write(written_record(5)).value(),
               Catch::Contains("No space left on device"));
  }
  CHECK(!writer->write(written_record(6)));
  CHECK(dir.lines("metrics.jsonl").size() == 6);
  CHECK(dir.lines("metrics.damaged.jsonl").size() == 5);
}

TEST_CASE("a line torn by a crash is removed, and the whole lines before it stay") {
  const std::string whole =
      R"({"step":4,"tokens":1,"consumed_samples":1,"mem_bytes":1,"mem_peak_bytes":1})";
  for (const std::string& tail :
       {std::string(R"({"step":4,"lo)"), whole /* no newline */, std::string("\0\0\0\0\n", 5),
        std::string("[]\n"), std::string("{}\n"), std::string("\xff\xfe\n"),
        std::string(R"({"step":"x"})") + "\n"}) {
    RunDir dir;
    write_steps(dir, 0, 3);
    dir.append("metrics.jsonl", tail);
    dir.append("metrics.csv", "4,1");
    write_steps(dir, 5, 6);
    CHECK(dir.lines("metrics.jsonl").size() == 4);
    CHECK(dir.lines("metrics.csv").size() == 5);
  }
}

TEST_CASE("steps up to the resumed one that have no record are named") {
  const auto missing_after = [](auto&& change, std::int64_t resumed_step,
                                OtherRecords others = {}) {
    RunDir dir;
    write_steps(dir, 0, 6);
    std::vector<std::string> lines = dir.lines("metrics.jsonl");
    change(lines);
    std::ofstream out(dir / "metrics.jsonl", std::ios::trunc);
    for (const std::string& line : lines) out << line << '\n';
    out.close();
    const MetricsWriter writer(dir.path(), resumed_step, others);
    const std::string start = dir / "metrics.jsonl has no records of ";
    if (!writer.missing()) return std::string("none");
    CHECK(writer.missing()->starts_with(start));
    return writer.missing()->substr(start.size());
  };
  using Lines = std::vector<std::string>;
  CHECK(missing_after([](Lines&) {}, 6) == "none");
  CHECK(missing_after([](Lines& lines) { lines.resize(4); }, 4) == "none");
  CHECK(missing_after([](Lines& lines) { lines.erase(lines.begin()); }, 6) ==
        "none");  // of a branch
  CHECK(missing_after([](Lines& lines) { lines.erase(lines.begin() + 2); }, 6) == "step 3");
  CHECK(missing_after([](Lines& lines) { lines.pop_back(); }, 6) == "step 6");
  CHECK(missing_after([](Lines& lines) { lines.erase(lines.begin() + 1, lines.begin() + 3); }, 7) ==
        "steps 2 to 3, step 7");
  CHECK(missing_after([](Lines& lines) { lines.clear(); }, 6) == "steps 1 to 6");
  CHECK(missing_after([](Lines& lines) { lines.clear(); }, 6, {.until_resumed_step = true}) ==
        "none");
}

TEST_CASE("a damaged line costs its step alone, and the old file is kept aside") {
  RunDir dir;
  write_steps(dir, 0, 4);
  std::string text = dir.read("metrics.jsonl");
  text.replace(text.find("\"step\":2") + 7, 1, 3, '\0');
  std::ofstream(dir / "metrics.jsonl", std::ios::trunc) << text;
  for (const std::string& aside :
       {std::string("metrics.damaged.jsonl"), std::string("metrics.damaged-2.jsonl")}) {
    std::ofstream(dir / "metrics.jsonl", std::ios::trunc) << text;
    {
      MetricsWriter writer(dir.path(), 3);
      CHECK(writer.kept_aside().value() ==
            dir / "metrics.jsonl" + ": line 2 is not the record of a step; the file is kept as " +
                (dir / aside) + ", and " + (dir / "metrics.jsonl") +
                " has the steps that could be read");
      CHECK(writer.elapsed_s() == 0.75);
      CHECK(!writer.write(written_record(4)));
    }
    CHECK(dir.read(aside) == text);
    const auto jsonl = dir.lines("metrics.jsonl"), csv = dir.lines("metrics.csv");
    REQUIRE(jsonl.size() == 3);
    REQUIRE(csv.size() == 4);
    for (std::size_t i = 0; i < 3; ++i)
      CHECK(parse_json<nlohmann::json>(jsonl[i])["step"] == std::vector{1, 3, 4}[i]);
  }
}

TEST_CASE(
    "a step that occurs twice, and a line without an end, are damage; a superseded step is not") {
  RunDir dir;
  write_steps(dir, 0, 3);
  CHECK(!MetricsWriter(dir.path(), 2).kept_aside());
  dir.append("metrics.jsonl",
             dir.lines("metrics.jsonl")[0] + "\n" + std::string(3 << 20, 'x') + "\n");
  CHECK(MetricsWriter(dir.path(), 2)
            .kept_aside()
            ->find("line 3 is not the record of a step, nor are 1 more") != std::string::npos);
  CHECK(dir.lines("metrics.jsonl").size() == 2);
}

TEST_CASE("a disk that cannot read the history to its end costs what it cannot read") {
  struct BadSector : FileOps {
    ssize_t read(int fd, void* buffer, std::size_t bytes) override {
      if (reads++ < 2) return FileOps::read(fd, buffer, bytes);
      errno = EIO;
      return -1;
    }
    int open(const char* path, int flags, mode_t mode) override {
      reads = 0;
      return FileOps::open(path, flags, mode);
    }
    int reads = 0;
  };
  RunDir dir;
  write_steps(dir, 0, 100);
  const std::string text = dir.read("metrics.jsonl");
  BadSector disk;
  std::optional<std::string> damage;
  {
    const FileOpsOverride replaced(disk);
    damage = MetricsWriter(dir.path(), 100).kept_aside();
  }
  CHECK(damage.value().find("Input/output error") != std::string::npos);
  CHECK(dir.read("metrics.damaged.jsonl") == text);
  CHECK(dir.lines("metrics.jsonl").size() > 5);
}

TEST_CASE("records of a version that had no elapsed_s are read") {
  RunDir dir;
  dir.append("metrics.jsonl",
             R"({"step":1,"tokens":1,"consumed_samples":1,"mem_bytes":1,"mem_peak_bytes":1})"
             "\n");
  const MetricsWriter writer(dir.path(), 1);
  CHECK(!writer.kept_aside());
  CHECK(writer.elapsed_s() == 0);
  CHECK(dir.lines("metrics.csv")[1] == "1,,,,,,1,,1,,1,1,,,,,,");
}

TEST_CASE("a full disk loses no step: it is reported, and written once there is room") {
  RunDir dir;
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  ::getrlimit(RLIMIT_FSIZE, &before);
  {
    MetricsWriter writer(dir.path(), 0);
    CHECK(!writer.write(written_record(1)));
    const rlimit full{300, before.rlim_max};  // less than two lines
    ::setrlimit(RLIMIT_FSIZE, &full);
    const auto problem = writer.write(written_record(2));
    ::setrlimit(RLIMIT_FSIZE, &before);
    REQUIRE(problem);
    CHECK(problem->find(dir.path() + "/metrics.jsonl") != std::string::npos);
    CHECK(!writer.write(written_record(3)));
  }
  const auto lines = dir.lines("metrics.jsonl");
  REQUIRE(lines.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) CHECK(parse_json<nlohmann::json>(lines[i])["step"] == i + 1);
  CHECK(dir.lines("metrics.csv").size() == 4);
}

TEST_CASE("lines that cannot be written take a bounded memory, and the lost ones are counted") {
  RunDir dir;
  MetricsWriter writer(dir.path(), 0);
  std::int64_t step = 0, first_lost = 0;
  FailingFileOps full(0, ENOSPC, /*for_good=*/true);
  {
    const FileOpsOverride use(full);
    while (first_lost == 0 || step < first_lost + 10) {
      const std::string problem = writer.write(written_record(++step)).value();
      CHECK(problem.starts_with("cannot write " + dir / "metrics.jsonl: No space left on device"));
      if (first_lost == 0 && problem.find("from here on are lost") != std::string::npos)
        first_lost = step;
      REQUIRE(step < 10000);
    }
    CHECK(first_lost > 1000);
  }
  ++step;
  CHECK(writer.write(written_record(step)) ==
        fmt::format("{} is incomplete: {} lines could not be written", dir / "metrics.jsonl",
                    step - first_lost + 1));
  CHECK(!writer.write(written_record(++step)));
  CHECK(!writer.finish());
  CHECK(dir.lines("metrics.jsonl").size() == static_cast<std::size_t>(first_lost));
}

TEST_CASE("lines that are still not written at the end are counted") {
  RunDir dir;
  MetricsWriter writer(dir.path(), 0);
  FailingFileOps full(0, ENOSPC, /*for_good=*/true);
  const FileOpsOverride use(full);
  (void)writer.write(written_record(1));
  (void)writer.write(written_record(2));
  CHECK_THAT(
      writer.finish().value(),
      Catch::Contains(dir /
                      "metrics.jsonl is incomplete: 2 lines could not be written (cannot write") &&
          Catch::Contains(dir /
                          "metrics.csv is incomplete: 2 lines could not be written (cannot write"));
}

TEST_CASE("a run folder that cannot be written is refused by name") {
  CHECK_THROWS_WITH(MetricsWriter("/nonexistent", 0),
                    Catch::Contains("cannot create /nonexistent/metrics.jsonl: No such file"));
  RunDir dir;
  std::filesystem::create_directory(dir.path() + "/metrics.csv");
  CHECK_THROWS_WITH(MetricsWriter(dir.path(), 0), Catch::Contains("metrics.csv"));
}

TEST_CASE("an object that is not a record is refused by the field") {
  nlohmann::json json = written_record(1);
  json["loss"] = "low";
  CHECK_THROWS_WITH(json.get<StepRecord>(), "a step record without a proper \"loss\"");
  json["loss"] = nullptr;
  json["step"] = 1.5;
  CHECK_THROWS_WITH(json.get<StepRecord>(), "a step record without a proper \"step\"");
  json.erase("step");
  CHECK_THROWS_WITH(json.get<StepRecord>(), "a step record without a proper \"step\"");
}
