#include <cctype>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"
#include "hgtrain/base/shell.h"
#include "hgtrain/base/terminal.h"
#include "hgtrain/wire/job_key.h"

#include "commands.h"
#include "options.h"
#include "submitted_training.h"

namespace hgt {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxFailures = 3;                    // of the whole job, then it stays failed
constexpr std::size_t kMaxStem = 40;               // a pod's name has at most 63 characters
constexpr std::int64_t kMaxSecretBytes = 900'000;  // a Secret has at most 1 MiB
constexpr const char* kFiles = "/run/hgtrain";     // the Secret's
constexpr const char* kWork = "/work";             // the claim's

/// A new name, valid for a Service: "Llama 8B.json" becomes "llama-8b-3f9c1".
std::string job_name(const std::string& config) {
  std::string out;
  for (const char c : stem_of(config).substr(0, kMaxStem)) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 128 && std::isalnum(byte) ? static_cast<char>(std::tolower(byte)) : '-';
  }
  if (!std::isalpha(static_cast<unsigned char>(out[0]))) out = "job-" + out;
  return fmt::format("{}-{}", out, JobKey::random().hex().substr(0, 5));
}

/// Escapes an argument of a container, in which Kubernetes replaces $(NAME), and $$ by $.
std::string literal(const std::string& argument) {
  std::string out;
  for (const char c : argument) out += c == '$' ? "$$" : std::string(1, c);
  return out;
}

class SubmitK8s final : public Command {
 public:
  std::string_view name() const override { return "submit k8s"; }
  std::string_view summary() const override { return "train as an indexed Job of Kubernetes"; }
  Rest rest() const override { return Rest::kOverrides; }

  void add_options(Options& options) override {
    training_.add_options(options);
    options.add("--image", image_, "container image that has hgtrain").required();
    options.add("--claim", claim_, "PersistentVolumeClaim of data and run").required();
    options.add("--memory", memory_, "memory of each node, in Kubernetes' form: 64Gi");
    options.add("--namespace", namespace_, "namespace of the job (default: kubectl's)");
  }

  int run(const std::vector<std::string>& overrides) override {
    training_.check(overrides, /*is_data_here=*/false);
    name_ = job_name(training_.config);
    const std::string text = list(overrides);
    if (training_.dry_run) {
      say("{}", text);
      return 0;
    }
    if (!is_installed("kubectl")) leave(text);
    pipe_to("kubectl create -f -", text,
            fmt::format("if it has made anything, remove that: {}", deletion()));
    const std::string node_0 =
        fmt::format("-l job-name={},batch.kubernetes.io/job-completion-index=0", name_);
    tell("to follow it:   {}\nlogs of ranks:  {} $({}) -- hgtrain logs -f {}\n",
         kubectl("logs -f --tail=-1 " + node_0), kubectl("exec"),
         kubectl("get pod -o name --field-selector=status.phase=Running " + node_0),
         shell_word(training_.run_dir));
    tell("to pause it:    {} (and with false to resume)\nto end it:      {}\n",
         kubectl("patch job " + name_ + R"( -p '{"spec":{"suspend":true}}')"), deletion());
    return 0;
  }

 private:
  [[noreturn]] void leave(const std::string& text) const {
    const std::string path = name_ + ".json";
    File::open(path, O_WRONLY | O_CREAT | O_EXCL, 0600, ErrorKind::kConfig).write(text);
    throw Error(ErrorKind::kDevice,
                fmt::format("this machine has no kubectl; the job is in {}", path),
                fmt::format("take it to a machine that has: kubectl create -f {}", path));
  }

  std::string kubectl(const std::string& words) const {
    const std::string where = namespace_.empty() ? "" : "-n " + shell_word(namespace_) + " ";
    return "kubectl " + where + words;
  }
  std::string deletion() const {
    return kubectl("delete job,service,secret -l hgtrain-job=" + name_);
  }

  std::string list(const std::vector<std::string>& overrides) const {
    try {
      const Json items = Json::array({secret(), service(), job(overrides)});
      return Json{{"apiVersion", "v1"}, {"kind", "List"}, {"items", items}}.dump(2) + "\n";
    } catch (const Json::type_error&) {
      throw Error(ErrorKind::kConfig, "the config or a flag is not valid UTF-8",
                  "Kubernetes accepts only UTF-8");
    }
  }

  Json object(const char* version, const char* kind) const {
    Json metadata{{"name", name_}, {"labels", {{"hgtrain-job", name_}}}};
    if (!namespace_.empty()) metadata["namespace"] = namespace_;
    return {{"apiVersion", version}, {"kind", kind}, {"metadata", metadata}};
  }

  Json secret() const {
    Json out = object("v1", "Secret");
    out["stringData"] = {
        {"config.json", read_file(training_.config, kMaxSecretBytes, ErrorKind::kConfig)},
        {"job", JobKey::random().hex()}};
    return out;
  }

  /// Gives the pods their names, also while they are not ready.
  Json service() const {
    Json out = object("v1", "Service");
    out["spec"] = {{"clusterIP", "None"},
                   {"publishNotReadyAddresses", true},
                   {"selector", {{"job-name", name_}}}};
    return out;
  }

  /// If a pod is evicted, all pods save, start again and resume. Exit codes 4 (damaged data) and 5
  /// (a check stopped the run) end the job.
  Json job(const std::vector<std::string>& overrides) const {
    const Json rules = Json::array(
        {{{"action", "Ignore"},
          {"onPodConditions", Json::array({{{"type", "DisruptionTarget"}, {"status", "True"}}})}},
         {{"action", "Ignore"},
          {"onExitCodes", {{"operator", "In"}, {"values", Json::array({75})}}}},
         {{"action", "FailJob"},
          {"onExitCodes", {{"operator", "In"}, {"values", Json::array({4, 5})}}}}});
    Json out = object("batch/v1", "Job");
    Json& spec = out["spec"];
    spec = {{"completionMode", "Indexed"},
            {"completions", training_.nodes},
            {"parallelism", training_.nodes},
            {"backoffLimit", kMaxFailures * training_.nodes - 1},  // each pod counts
            {"podFailurePolicy", {{"rules", rules}}},
            {"template",
             {{"metadata", {{"labels", {{"hgtrain-job", name_}}}}}, {"spec", pod(overrides)}}}};
    if (const auto seconds = training_.seconds()) spec["activeDeadlineSeconds"] = *seconds;
    return out;
  }

  Json pod(const std::vector<std::string>& overrides) const {
    const auto volume = [](const char* name, const char* kind, const Json& what) {
      return Json{{"name", name}, {kind, what}};
    };
    return {{"subdomain", name_},
            {"restartPolicy", "Never"},
            {"terminationGracePeriodSeconds", kSecondsToSave},
            {"containers", Json::array({container(overrides)})},
            {"volumes",
             Json::array({volume("work", "persistentVolumeClaim", {{"claimName", claim_}}),
                          volume("files", "secret", {{"secretName", name_}, {"defaultMode", 0400}}),
                          volume("shm", "emptyDir", {{"medium", "Memory"}})})}};
  }

  Json container(const std::vector<std::string>& overrides) const {
    Json limits{{"cpu", training_.cpus_per_node()}};
    if (training_.gpus) limits["nvidia.com/gpu"] = *training_.gpus;
    if (!memory_.empty()) limits["memory"] = memory_;
    const auto mount = [](const char* name, const char* path) {
      return Json{{"name", name}, {"mountPath", path}};
    };
    Json files = mount("files", kFiles);
    files["readOnly"] = true;
    return {{"name", "hgtrain"},
            {"image", image_},
            {"workingDir", kWork},
            {"command", Json::array({"hgtrain"})},
            {"args", arguments(overrides)},
            {"resources", {{"limits", limits}}},
            {"volumeMounts", Json::array({mount("work", kWork), files, mount("shm", "/dev/shm")})}};
  }

  std::vector<std::string> arguments(const std::vector<std::string>& overrides) const {
    std::vector<std::string> out =
        training_.arguments(fmt::format("{}/config.json", kFiles), overrides);
    if (training_.nodes > 1)
      out.insert(out.end(), {"--nnodes", std::to_string(training_.nodes), "--master_addr",
                             fmt::format("{0}-0.{0}", name_), "--job_secret_file",
                             fmt::format("{}/job", kFiles)});
    for (std::string& argument : out) argument = literal(argument);
    return out;
  }

  SubmittedTraining training_;
  std::string image_, claim_, memory_, namespace_;
  std::string name_;
};

}  // namespace

std::unique_ptr<Command> submit_k8s_command() {
  return std::make_unique<SubmitK8s>();
}

}  // namespace hgt
