#include "hgtrain/wire/requests.h"

#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/json.h"
#include "hgtrain/base/utf8.h"

namespace hgt {
namespace {

using Json = nlohmann::ordered_json;

/// Names and members of a request's fields.
template <class Request>
constexpr auto kFields = std::tuple();

template <>
constexpr auto kFields<TrainRequest> = std::tuple(
    std::pair("run_dir", &TrainRequest::run_dir), std::pair("config", &TrainRequest::config),
    std::pair("resume", &TrainRequest::resume),
    std::pair("record_steps", &TrainRequest::record_steps), std::pair("mark", &TrainRequest::mark));

template <>
constexpr auto kFields<EvalRequest> = std::tuple(std::pair("weights", &EvalRequest::weights),
                                                 std::pair("samples", &EvalRequest::samples),
                                                 std::pair("config", &EvalRequest::config));

template <>
constexpr auto kFields<GenerateRequest> = std::tuple(
    std::pair("model", &GenerateRequest::model), std::pair("prompt", &GenerateRequest::prompt),
    std::pair("output", &GenerateRequest::output), std::pair("weights", &GenerateRequest::weights),
    std::pair("device", &GenerateRequest::device), std::pair("dtype", &GenerateRequest::dtype),
    std::pair("max_tokens", &GenerateRequest::max_tokens),
    std::pair("threads", &GenerateRequest::threads),
    std::pair("temperature", &GenerateRequest::temperature),
    std::pair("top_k", &GenerateRequest::top_k), std::pair("top_p", &GenerateRequest::top_p),
    std::pair("seed", &GenerateRequest::seed));

template <>
constexpr auto kFields<BenchRequest> = std::tuple(std::pair("what", &BenchRequest::what),
                                                  std::pair("repeats", &BenchRequest::repeats),
                                                  std::pair("json", &BenchRequest::json),
                                                  std::pair("config", &BenchRequest::config));

template <>
constexpr auto kFields<BenchLayoutsRequest> = std::tuple(
    std::pair("configs", &BenchLayoutsRequest::configs),
    std::pair("steps", &BenchLayoutsRequest::steps), std::pair("json", &BenchLayoutsRequest::json));

template <>
constexpr auto kFields<BenchCopyRequest> = std::tuple(
    std::pair("device", &BenchCopyRequest::device), std::pair("bytes", &BenchCopyRequest::bytes),
    std::pair("threads", &BenchCopyRequest::threads),
    std::pair("repeats", &BenchCopyRequest::repeats), std::pair("json", &BenchCopyRequest::json));

template <>
constexpr auto kFields<BenchCommRequest> = std::tuple(
    std::pair("device", &BenchCommRequest::device),
    std::pair("oversubscribe", &BenchCommRequest::oversubscribe),
    std::pair("backend", &BenchCommRequest::backend), std::pair("op", &BenchCommRequest::op),
    std::pair("min_bytes", &BenchCommRequest::min_bytes),
    std::pair("max_bytes", &BenchCommRequest::max_bytes),
    std::pair("repeats", &BenchCommRequest::repeats), std::pair("json", &BenchCommRequest::json));

/// Calls visit(name, field) for each field.
template <class Request, class Visit>
void visit_fields(Request& request, const Visit& visit) {
  std::apply([&](const auto&... field) { (visit(field.first, request.*field.second), ...); },
             kFields<std::remove_const_t<Request>>);
}

template <class T>
Json to_json(const T& value) {
  return value;
}

Json to_json(const std::string& text) {
  if (valid_utf8_prefix(text) == text.size()) return text;
  return Json(std::vector<std::uint8_t>(text.begin(), text.end()));
}

template <class T>
void from_json(const Json& json, T& value) {
  json.get_to(value);
}

void from_json(const Json& json, std::string& text) {
  if (json.is_string()) {
    json.get_to(text);
    return;
  }
  const auto bytes = json.get<std::vector<std::uint8_t>>();
  text.assign(bytes.begin(), bytes.end());
}

}  // namespace

template <class Request>
std::string encode_request(const Request& request) {
  Json json = Json::object();
  visit_fields(request, [&](const char* name, const auto& field) { json[name] = to_json(field); });
  return json.dump();
}

template <class Request>
Request decode_request(std::string_view text) {
  Request request;
  try {
    const Json json = parse_json<Json>(text);
    visit_fields(request, [&](const char* name, auto& field) { from_json(json.at(name), field); });
  } catch (const nlohmann::json::exception& e) {
    throw Error(
        ErrorKind::kConfig,
        fmt::format("hgtrain-worker {}: the request is malformed: {}", Request::kCommand, e.what()),
        "hgtrain starts its workers itself");
  }
  return request;
}

#define HGT_REQUEST(Request)                                   \
  template std::string encode_request(const Request& request); \
  template Request decode_request(std::string_view text);
HGT_REQUEST(TrainRequest)
HGT_REQUEST(EvalRequest)
HGT_REQUEST(GenerateRequest)
HGT_REQUEST(BenchRequest)
HGT_REQUEST(BenchLayoutsRequest)
HGT_REQUEST(BenchCopyRequest)
HGT_REQUEST(BenchCommRequest)
#undef HGT_REQUEST

}  // namespace hgt
