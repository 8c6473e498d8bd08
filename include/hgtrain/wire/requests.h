#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hgt {

// What hgtrain asks of hgtrain-worker: one struct per command. The launcher starts
// `hgtrain-worker COMMAND REQUEST`, and REQUEST is the struct as JSON.

/// Trains, as one rank of the job that the environment describes.
struct TrainRequest {
  static constexpr const char* kCommand = "train";
  std::string run_dir;
  std::string config;             ///< path of the resolved config
  std::string resume;             ///< auto, none, or a checkpoint folder
  std::int64_t record_steps = 0;  ///< steps whose spans are recorded
  /// A file in the run folder, by which a rank finds out whether its host sees that folder. "":
  /// none.
  std::string mark = {};
};

/// Measures a model's loss, as one rank. Rank 0 sends "result" {loss} up the control channel.
struct EvalRequest {
  static constexpr const char* kCommand = "eval";
  std::string weights;  ///< model or ema
  std::int64_t samples = 0;
  std::string config;  ///< the resolved config as JSON
};

/// Continues a text, and prints it.
struct GenerateRequest {
  static constexpr const char* kCommand = "generate";
  std::string model;    ///< checkpoint, run folder, or HF model folder
  std::string prompt;   ///< "-" reads it from standard input
  std::string output;   ///< text, continuation or json
  std::string weights;  ///< model or ema
  std::string device;   ///< cpu, or cuda: the first GPU
  std::string dtype;    ///< fp32, bf16 or fp16
  std::int64_t max_tokens = 0;
  std::int64_t threads = 0;
  double temperature = 1;  ///< this and the next three: SamplingOptions
  std::int64_t top_k = 0;
  double top_p = 1;
  std::uint64_t seed = 0;
};

/// Measures a training step, its products or its ops, and prints the result.
struct BenchRequest {
  static constexpr const char* kCommand = "bench";
  std::string what;  ///< train, gemm, ops or plan_ops
  std::int64_t repeats = 0;
  bool json = false;
  std::string config;  ///< the resolved config as JSON
};

/// Measures training steps of several layouts, as one rank. Rank 0 sends "result" {text} up
/// the control channel.
struct BenchLayoutsRequest {
  static constexpr const char* kCommand = "bench_layouts";
  std::string configs;  ///< the resolved configs as a JSON array
  std::int64_t steps = 0;
  bool json = false;
};

/// Measures copies of memory, and prints the result.
struct BenchCopyRequest {
  static constexpr const char* kCommand = "bench_copy";
  std::string device;  ///< cpu, or cuda: the first GPU
  std::int64_t bytes = 0, threads = 0, repeats = 0;
  bool json = false;
};

/// Measures a collective, as one rank. Rank 0 sends "result" {text} up the control channel.
struct BenchCommRequest {
  static constexpr const char* kCommand = "bench_comm";
  std::string device;  ///< cpu or cuda
  bool oversubscribe = false;
  std::string backend;  ///< auto or gloo
  std::string op;       ///< CommBench::op
  std::int64_t min_bytes = 0, max_bytes = 0, repeats = 0;
  bool json = false;
};

/// The request as JSON. A string that is not UTF-8, as a path may be, becomes an array of its
/// bytes.
template <class Request>
std::string encode_request(const Request& request);

/// The reverse. Error(kConfig) if `text` does not have that form, because the user started the
/// worker by hand.
template <class Request>
Request decode_request(std::string_view text);

/// The command line of a worker: `program`, the command, the request.
template <class Request>
std::vector<std::string> worker_argv(const std::string& program, const Request& request) {
  return {program, Request::kCommand, encode_request(request)};
}

}  // namespace hgt
