#include "hgtrain/report/profile.h"

#include <algorithm>
#include <map>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/file.h"
#include "hgtrain/base/json.h"
#include "hgtrain/report/human.h"

namespace hgt {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMaxBytes = 16 << 20;

double share(double ms, const Profile& profile) {
  return profile.total_ms > 0 ? ms / profile.total_ms : 0;
}

double ms_of(const SpanRecord& span) {
  return static_cast<double>(span.end_ns - span.begin_ns) * 1e-6;
}

/// on_step(span) and on_op(span, the one around it) for the steps of thread "training" and the
/// innermost ops in them.
template <class OnStep, class OnOp>
void visit_steps(const std::vector<ThreadSpans>& threads, const OnStep& on_step,
                 const OnOp& on_op) {
  for (const auto& [name, spans] : threads) {
    if (name != std::string_view("training")) continue;
    std::vector<const SpanRecord*> open;  // the spans around the one at hand, and that one
    for (std::size_t i = 0; i < spans.size(); ++i) {
      open.resize(std::min(open.size(), static_cast<std::size_t>(spans[i].depth)));
      open.push_back(&spans[i]);
      if (open[0]->name != std::string_view("step") || open[0]->end_ns == 0) continue;
      const bool holds_others = i + 1 < spans.size() && spans[i + 1].depth > spans[i].depth;
      if (open.size() == 1)
        on_step(spans[i]);
      else if (spans[i].kind == SpanRecord::Kind::kOp && !holds_others)
        on_op(spans[i], *open[open.size() - 2]);
    }
  }
}

}  // namespace

Speed speed_of(const Work& work, double ms, const Ceilings& ceilings) {
  const bool multiplies = work.flops > 0;
  const double amount = multiplies ? work.flops : work.bytes;
  const double ceiling = multiplies ? ceilings.flops_per_sec : ceilings.bytes_per_sec;
  if (amount <= 0 || ms <= 0) return {};
  const double rate = amount / (ms * 1e-3);
  return {multiplies, rate, ceiling > 0 ? rate / ceiling : 0};
}

std::vector<OpCall> op_calls(const std::vector<ThreadSpans>& threads) {
  std::vector<OpCall> calls;
  visit_steps(
      threads, [](const SpanRecord&) {},
      [&](const SpanRecord& op, const SpanRecord& around) {
        std::string name = op.name;
        if (around.kind == SpanRecord::Kind::kOp) name = fmt::format("{} {}", around.name, op.name);
        calls.push_back({std::move(name), ms_of(op), {op.flops, op.bytes}});
      });
  return calls;
}

Profile make_profile(const std::vector<ThreadSpans>& threads, const Ceilings& ceilings) {
  Profile profile;
  profile.ceilings = ceilings;
  visit_steps(
      threads,
      [&](const SpanRecord& step) {
        if (profile.steps++ == 0) profile.first_step = step.number;
        profile.total_ms += ms_of(step);
      },
      [](const SpanRecord&, const SpanRecord&) {});
  profile.outside_ms = profile.total_ms;
  std::map<std::string, Profile::Row> rows;
  for (const OpCall& call : op_calls(threads)) {
    Profile::Row& row = rows[call.op];
    row.op = call.op;
    ++row.calls;
    row.ms += call.ms;
    row.work.flops += call.work.flops;
    row.work.bytes += call.work.bytes;
    profile.outside_ms -= call.ms;
  }
  for (auto& [name, row] : rows) profile.rows.push_back(std::move(row));
  std::sort(profile.rows.begin(), profile.rows.end(),
            [](const Profile::Row& a, const Profile::Row& b) { return a.ms > b.ms; });
  return profile;
}

std::string profile_table(const Profile& p) {
  const auto steps = static_cast<double>(std::max<std::int64_t>(p.steps, 1));
  const auto line = [&](const std::string& op, std::int64_t calls, double ms, const Speed& speed) {
    return fmt::format(
        "  {:34}{:>8}{:>12.3f}{:>8.1f}%{:>14}{:>8}\n", op,
        calls > 0 ? human_count(static_cast<double>(calls) / steps) : "", ms / steps,
        100 * share(ms, p),
        speed.rate > 0 ? human_rate(speed.rate, speed.multiplies ? "FLOP/s" : "B/s") : "",
        speed.rate > 0 ? fmt::format("{:.0f}%", 100 * speed.of_ceiling) : "");
  };
  std::string text =
      fmt::format("profile of rank 0, {} from step {} on\n  {:34}{:>8}{:>12}{:>9}{:>14}{:>8}\n",
                  human_plural(p.steps, "step"), p.first_step, "op", "calls", "ms a step", "share",
                  "rate", "of max");
  for (const Profile::Row& row : p.rows)
    text += line(row.op, row.calls, row.ms, speed_of(row.work, row.ms, p.ceilings));
  text += line("in no op", 0, p.outside_ms, {});
  text += line("step", 0, p.total_ms, {});
  return text + fmt::format("max: products {}, copies {}, measured before the first step\n",
                            human_rate(p.ceilings.flops_per_sec, "FLOP/s"),
                            human_rate(p.ceilings.bytes_per_sec, "B/s"));
}

void write_profile(const std::string& run_dir, const Profile& p) {
  Json ops = Json::array();
  for (const Profile::Row& row : p.rows)
    ops.push_back({{"op", row.op},
                   {"calls", row.calls},
                   {"ms", row.ms},
                   {"share", share(row.ms, p)},
                   {"flops", row.work.flops},
                   {"bytes", row.work.bytes},
                   {"of_ceiling", speed_of(row.work, row.ms, p.ceilings).of_ceiling}});
  const Json json{
      {"first_step", p.first_step},
      {"steps", p.steps},
      {"total_ms", p.total_ms},
      {"outside_ms", p.outside_ms},
      {"outside_share", share(p.outside_ms, p)},
      {"ceilings",
       {{"flops_per_sec", p.ceilings.flops_per_sec}, {"bytes_per_sec", p.ceilings.bytes_per_sec}}},
      {"ops", ops}};
  write_file_atomically(run_dir + "/profile.json", json.dump(2) + "\n");
}

Profile read_profile(const std::string& run_dir) {
  const std::string path = run_dir + "/profile.json";
  try {
    const Json json = parse_json<Json>(read_file(path, kMaxBytes));
    Profile p;
    json.at("first_step").get_to(p.first_step);
    json.at("steps").get_to(p.steps);
    json.at("total_ms").get_to(p.total_ms);
    json.at("outside_ms").get_to(p.outside_ms);
    json.at("ceilings").at("flops_per_sec").get_to(p.ceilings.flops_per_sec);
    json.at("ceilings").at("bytes_per_sec").get_to(p.ceilings.bytes_per_sec);
    for (const Json& op : json.at("ops"))
      p.rows.push_back(
          {op.at("op"), op.at("calls"), op.at("ms"), {op.at("flops"), op.at("bytes")}});
    return p;
  } catch (const nlohmann::json::exception& e) {
    throw Error(ErrorKind::kData, fmt::format("{} is not a profile: {}", path, e.what()));
  }
}

}  // namespace hgt
