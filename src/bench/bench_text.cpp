#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/bench/bench.h"
#include "hgtrain/report/human.h"

namespace hgt {
namespace {

using Json = nlohmann::ordered_json;

std::string rate(const Json& value, const char* unit) {
  return human_rate(value.get<double>(), unit);
}

std::string bytes_per_sec(double value) {
  return human_rate(value, "B/s");
}
std::string flops_per_sec(double value) {
  return human_rate(value, "FLOP/s");
}
std::string milliseconds(double value) {
  return fmt::format("{:.{}f}", value, value < 9.995 ? 2 : 1);
}

std::string percent(const Json& value) {
  return fmt::format("{:.1f}%", 100 * value.get<double>());
}

/// "12.3k (p10 12.1k, p90 12.9k)", each written by `text`.
std::string spread(const Json& s, std::string (*text)(double)) {
  const auto number = [&](const char* which) { return text(s[which].get<double>()); };
  return fmt::format("{} (p10 {}, p90 {})", number("median"), number("p10"), number("p90"));
}

std::string shape(const Json& product) {
  return fmt::format("{} x {} x {}", product["m"].get<std::int64_t>(),
                     product["n"].get<std::int64_t>(), product["k"].get<std::int64_t>());
}

std::string head(const Json& result) {
  const Json& m = result["model"];
  const std::string on = result["gpu"].is_null()
                             ? fmt::format("{}, {}{}", result["cpu"].get<std::string>(),
                                           human_plural(result["threads"], "thread"),
                                           result.contains("layouts") ? " a worker" : "")
                             : result["gpu"].get<std::string>();
  const Json& attention = result["attention"];
  return fmt::format(
      "{}\n{}: {} of {}, {}, vocabulary {}; {} x {} tokens\n{}", on,
      m["model_type"].get<std::string>(), human_plural(m["num_hidden_layers"], "layer"),
      m["hidden_size"].get<std::int64_t>(), human_plural(m["num_attention_heads"], "head"),
      m["vocab_size"].get<std::int64_t>(), result["micro_batch_size"].get<std::int64_t>(),
      result["seq_length"].get<std::int64_t>(),
      attention.is_null() ? "" : attention.get<std::string>() + "\n");
}

std::string train_text(const Json& r) {
  std::string text = fmt::format(
      "training    {} tok/s, a step {} ms, {}\n"
      "limit       {} tok/s: the weight products of a step alone take {:.1f} ms\n"
      "share       {} of the limit; mfu {} of the {} that large products reach\n"
      "loss        {:.5f} in step {}, norm of the gradients {:.5f}\n"
      "start       the first step was done after {:.0f} ms, {:.0f} ms more than a step takes\n"
      "memory      {} at most, {} before the first allocation; planned {}\n",
      spread(r["tokens_per_sec"], human_count), spread(r["step_ms"], milliseconds),
      r["dtype"].get<std::string>(), human_count(r["gemm_limit_tokens_per_sec"]),
      r["gemm_limit_ms"].get<double>(), percent(r["share_of_gemm_limit"]), percent(r["mfu"]),
      rate(r["peak_flops_per_sec"], "FLOP/s"), r["last_step"]["loss"].get<double>(),
      r["last_step"]["step"].get<std::int64_t>(), r["last_step"]["grad_norm"].get<double>(),
      r["first_step_ms"].get<double>(), r["start_ms"].get<double>(),
      human_bytes(r["peak_rss_bytes"]), human_bytes(r["rss_before_bytes"]),
      human_bytes(r["planned_bytes"]));
  for (const Json& p : r["products"])
    text +=
        fmt::format("  {:22}{:>22}{:>8} x{:>10.3f} ms{:>14} {}\n", p["product"].get<std::string>(),
                    shape(p), human_count(p["calls_per_step"]), p["ms"]["median"].get<double>(),
                    rate(p["flops_per_sec"], "FLOP/s"), p["kernel"].get<std::string>());
  return text;
}

std::string layouts_text(const Json& r) {
  constexpr const char* kLine = "{:<12}{:>32}{:>36}{:>25}{:>8}{:>8}{:>11}{:>11}\n";
  std::string text =
      fmt::format("over {}, {} tokens a step, {}\n", r["backend"].get<std::string>(),
                  r["tokens_per_step"].get<std::int64_t>(), r["dtype"].get<std::string>()) +
      fmt::format(kLine, "layout", "tok/s", "ms a step", "rate by the first", "cpu ms", "waits",
                  "a worker", "planned");
  for (const Json& s : r["layouts"]) {
    const Json& of_first = s["of_first"];
    text +=
        fmt::format(kLine, s["layout"].get<std::string>(), spread(s["tokens_per_sec"], human_count),
                    spread(s["step_ms"], milliseconds),
                    fmt::format("{:.3f} ({:.3f}, {:.3f})", of_first["median"].get<double>(),
                                of_first["p10"].get<double>(), of_first["p90"].get<double>()),
                    milliseconds(s["cpu_ms"]), percent(s["share_of_waits"]),
                    human_bytes(s["worker_bytes"]), human_bytes(s["planned_bytes"]));
  }
  return text;
}

std::string gemm_text(const Json& r) {
  std::string text;
  for (const Json& d : r["dtypes"]) {
    text += fmt::format("{}: {} is the best of large square products{}\n",
                        d["dtype"].get<std::string>(), rate(d["ceiling_flops_per_sec"], "FLOP/s"),
                        d["native"].get<bool>() ? "" : ", multiplied in fp32 on this CPU");
    for (const Json& p : d["products"])
      text += fmt::format("  {:22}{:>22}  {}, {} {}\n", p["product"].get<std::string>(), shape(p),
                          spread(p["flops_per_sec"], flops_per_sec), percent(p["of_ceiling"]),
                          p["kernel"].get<std::string>());
  }
  return text;
}

/// An op's name, with its arithmetic and bytes if known: they distinguish calls of several sizes.
std::string name(const Json& op) {
  std::string name = op["op"];
  if (op.contains("flops")) name += fmt::format(", {}FLOP", human_count(op["flops"]));
  if (op.contains("bytes")) name += fmt::format(", {}B", human_count(op["bytes"]));
  return name;
}

std::string ops_text(const Json& r) {
  constexpr const char* kLine = "  {:42} {:>7} {:>11} {:>7} {:>28}{}\n";
  constexpr const char* kSpeed = " {:>15} {:>8}";
  std::string text =
      fmt::format(
          "{}; products {}, copies {} at most; the ops of a step take {} ms, whole steps {} ms\n",
          r["dtype"].get<std::string>(), rate(r["matrix_flops_per_sec"], "FLOP/s"),
          rate(r["copy_bytes_per_sec"], "B/s"), milliseconds(r["ops_ms"].get<double>()),
          spread(r["step_ms"], milliseconds)) +
      fmt::format(kLine, "op", "a step", "ms a step", "share", "ms a call (p10, p90)",
                  fmt::format(kSpeed, "rate", "of max"));
  for (const Json& op : r["ops"]) {
    const Json& ms = op["ms"];
    std::string speed;
    if (op.contains("of_ceiling"))
      speed = fmt::format(kSpeed,
                          op.contains("flops") ? rate(op["flops_per_sec"], "FLOP/s")
                                               : rate(op["bytes_per_sec"], "B/s"),
                          percent(op["of_ceiling"]));
    text +=
        fmt::format(kLine, name(op), human_count(op["calls_per_step"]),
                    fmt::format("{:.3f}", op["ms_per_step"].get<double>()), percent(op["share"]),
                    fmt::format("{:.4f} ({:.4f}, {:.4f})", ms["median"].get<double>(),
                                ms["p10"].get<double>(), ms["p90"].get<double>()),
                    speed);
  }
  return text;
}

/// Counts by width: "4 x 16, 2 x 8".
std::string widths(const Json& accesses) {
  std::string text;
  for (const auto& [width, count] : accesses.items())
    text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", count.get<int>(), width);
  return text.empty() ? "-" : text;
}

std::string ops_plan_text(const Json& r) {
  constexpr const char* kLine =
      "  {:48} {:>3} {:>7} {:>9} {:>8} {:>6} {:>6} {:>9} {:<13} {:<30} {}\n";
  std::string text = fmt::format("CUDA kernels of steps in {}, as nvcc {} compiles them\n",
                                 r["dtype"].get<std::string>(), r["nvcc"].get<std::string>()) +
                     fmt::format(kLine, "kernel", "sm", "threads", "registers", "shared", "local",
                                 "blocks", "occupancy", "limit", "loads x bytes", "stores x bytes");
  for (const Json& kernel : r["kernels"])
    for (const Json& d : kernel["devices"])
      text += fmt::format(kLine, kernel["kernel"].get<std::string>(), d["sm"].get<int>(),
                          d["threads"].get<int>(), d["registers"].get<int>(),
                          d["shared_bytes"].get<int>(), d["local_bytes"].get<int>(),
                          d["blocks_per_multiprocessor"].get<int>(), percent(d["occupancy"]),
                          d["limit"].get<std::string>(), widths(d["loads"]), widths(d["stores"]));
  return text;
}

std::string copy_text(const Json& r) {
  std::string text =
      fmt::format("{}: copies of {}\n", r["cpu"].get<std::string>(), human_bytes(r["bytes"]));
  for (const Json& c : r["copies"]) {
    std::string name = c["copy"];
    if (c.contains("threads")) name += ", " + human_plural(c["threads"], "thread");
    text += fmt::format("  {:30}{}\n", name, spread(c["bytes_per_sec"], bytes_per_sec));
  }
  return text;
}

/// The columns of nccl-tests.
std::string comm_text(const Json& r) {
  std::string text = fmt::format("{} of fp32, {} over {}\n{:>12}{:>12}{:>12}{:>14}{:>14}{:>8}\n",
                                 r["op"].get<std::string>(), human_plural(r["workers"], "worker"),
                                 r["backend"].get<std::string>(), "bytes", "count", "time us",
                                 "algbw GB/s", "busbw GB/s", "wrong");
  for (const Json& s : r["sizes"])
    text +=
        fmt::format("{:>12}{:>12}{:>12.2f}{:>14.3f}{:>14.3f}{:>8}\n",
                    s["bytes"].get<std::int64_t>(), s["count"].get<std::int64_t>(),
                    s["us"]["median"].get<double>(), s["algbw_bytes_per_sec"].get<double>() * 1e-9,
                    s["busbw_bytes_per_sec"].get<double>() * 1e-9, s["wrong"].get<std::int64_t>());
  return text;
}

}  // namespace

std::string bench_text(const Json& result) {
  const std::string bench = result["bench"];
  if (bench == "copy") return copy_text(result);
  if (bench == "comm") return comm_text(result);
  if (bench == "ops plan") return ops_plan_text(result);
  if (result.contains("layouts")) return head(result) + layouts_text(result);
  return head(result) + (bench == "train"  ? train_text(result)
                         : bench == "gemm" ? gemm_text(result)
                                           : ops_text(result));
}

}  // namespace hgt
