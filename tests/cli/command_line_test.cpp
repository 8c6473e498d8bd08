#include <filesystem>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/file.h"

#include "command.h"
#include "options.h"
#include "support/temporary_folder.h"

using namespace hgt;

namespace {

struct Seen {
  int num_gpus = 0;
  std::string resume, hosts, command;
  std::vector<std::string> rest;
};

class Fake final : public Command {
 public:
  Fake(std::string name, Rest rest, Seen& seen) : name_(name), rest_(rest), seen_(seen) {}
  std::string_view name() const override { return name_; }
  std::string_view summary() const override { return "a test"; }
  void add_options(Options& options) override {
    options.add("--num_gpus,--num_accelerators", seen_.num_gpus, "GPUs to train on");
    options.add("--resume", seen_.resume, "a folder");
    options.add("--device", seen_.resume, "a device").one_of({"auto", "cuda", "cpu"});
    options.add("--hosts", seen_.hosts, "hosts");
    if (name_ == "train") options.add("--config", seen_.resume, "a file");
    if (name_ == "generate") {
      options.add("--model", seen_.resume, "a folder").required();
      options.add("--prompt", seen_.resume, "a text").required();
    }
  }
  Rest rest() const override { return rest_; }
  int run(const std::vector<std::string>& rest) override {
    seen_.command = name_;
    seen_.rest = rest;
    if (!seen_.hosts.empty())
      throw Error(ErrorKind::kDevice, fmt::format("host {} cannot be used", seen_.hosts));
    return 7;
  }

 private:
  std::string name_;
  Rest rest_;
  Seen& seen_;
};

Seen run(std::vector<std::string> args) {
  Seen seen;
  Commands commands;
  commands.push_back(std::make_unique<Fake>("train", Command::Rest::kOverrides, seen));
  commands.push_back(std::make_unique<Fake>("launch", Command::Rest::kProgram, seen));
  commands.push_back(std::make_unique<Fake>("data prepare", Command::Rest::kNone, seen));
  commands.push_back(std::make_unique<Fake>("generate", Command::Rest::kNone, seen));
  const int status = run_command_line(std::move(args), std::move(commands));
  CHECK(status == 7);
  return seen;
}

std::string refusal(std::vector<std::string> args) {
  try {
    run(std::move(args));
  } catch (const Error& e) {
    CHECK(e.exit_code() == 2);
    return e.message() + " | " + e.hint();
  }
  return "";
}

}  // namespace

TEST_CASE("training is the default command, and hyphens are underscores") {
  CHECK(run({"--num-gpus", "8"}).num_gpus == 8);
  CHECK(run({"--num_gpus=8"}).command == "train");
  CHECK(run({"train", "--num_gpus", "3"}).num_gpus == 3);
}

TEST_CASE("commands of a group take two words") {
  CHECK(run({"data", "prepare"}).command == "data prepare");
}

TEST_CASE("overrides are kept as pairs") {
  CHECK(run({"--optimizer.params.lr", "1e-3", "--num_gpus", "2", "--a.b=x=y"}).rest ==
        std::vector<std::string>{"optimizer.params.lr", "1e-3", "a.b", "x=y"});
  CHECK(run({"--train_batch_size", "8", "--gradient-clipping=0"}).rest ==
        std::vector<std::string>{"train_batch_size", "8", "gradient_clipping", "0"});
  CHECK(run({"--scheduler", "null", "--optimizer={}"}).rest ==
        std::vector<std::string>{"scheduler", "null", "optimizer", "{}"});
  CHECK(refusal({"--bf16", "--num_gpus"}).find("--bf16") != std::string::npos);
  CHECK(refusal({"--a.b"}).find("needs a value") != std::string::npos);
  CHECK(refusal({"--a.b", "1", "--a-b.c", "2", "--a.b=2"}).find("--a.b is given twice") == 0);
}

TEST_CASE("--log_level may stand before the command") {
  CHECK(run({"--log_level", "warning", "launch", "--num_gpus", "2", "--", "x"}).num_gpus == 2);
  CHECK(run({"--log-level=warning", "data", "prepare"}).command == "data prepare");
  CHECK(run({"--log_level", "warning", "--num_gpus", "2"}).command == "train");
  CHECK(refusal({"--log_level", "loud", "launch"}).starts_with("--log_level loud: use "));
}

TEST_CASE("a program's arguments pass untouched") {
  CHECK(run({"launch", "--num_gpus", "2", "--", "prog", "--num-gpus", "--", ""}).rest ==
        std::vector<std::string>{"prog", "--num-gpus", "--", ""});
}

TEST_CASE("an option is not the value of the one before it") {
  CHECK(refusal({"--resume", "--num_gpus", "3"}).find("--resume needs a value") == 0);
  CHECK(refusal({"--a.b", "--num_gpus", "3"}).find("--a.b needs a value") == 0);
  CHECK(refusal({"--a.b", "--num_gpus", "3"}).find("type --a.b VALUE") != std::string::npos);
  CHECK(refusal({"--parallelism.sequence-parallel", "--num_gpus", "3"})
            .find("type --parallelism.sequence_parallel true") != std::string::npos);
  CHECK(run({"--resume=--num_gpus"}).resume == "--num_gpus");
  CHECK(run({"--resume", "-- is a text"}).resume == "-- is a text");
  CHECK(run({"--a.b", "-1", "--resume", "-"}).rest == std::vector<std::string>{"a.b", "-1"});
}

TEST_CASE("a list in several words leads to one in one") {
  CHECK(refusal({"--optimizer.params.betas", "0.9", "0.95"}) ==
        "--optimizer.params.betas takes one value, but '0.95' follows it | a list is one value: "
        "--optimizer.params.betas '[0.9, 0.95]'");
  CHECK(refusal({"--a.b", "1", "my.json"}).find("--config my.json") != std::string::npos);
}

TEST_CASE("a word without its flag leads to the one that is missing") {
  CHECK(refusal({"generate", "runs/u", "--prompt", "a"}).ends_with("| use --model runs/u"));
  CHECK(refusal({"generate", "--model", "runs/u", "a b"}).ends_with("| use --prompt 'a b'"));
  CHECK(refusal({"generate", "--model", "runs/u"}) == "--prompt is required | --prompt: a text");
  CHECK(refusal({"generate"}) ==
        "--model and --prompt are required | --model: a folder; --prompt: a text");
  CHECK(refusal({"generate", "a b"}).ends_with("| use --model FOLDER --prompt 'a b'"));
}

TEST_CASE("wrong usage names the nearest right one") {
  CHECK(refusal({"trian"}).find("'train'") != std::string::npos);
  CHECK(refusal({"data", "prepar"}).find("'data prepare'") != std::string::npos);
  CHECK(refusal({"data"}).find("second word") != std::string::npos);
  CHECK(refusal({"data", "--input", "t"}).starts_with("data needs a second word | one of:\n"));
  CHECK(refusal({"data", "my.txt"}).starts_with("there is no command 'data my.txt' | one of:\n"));
  CHECK(refusal({"prepare"}) == "there is no command 'prepare' | did you mean 'data prepare'?");
  CHECK(refusal({"torchrun", "--nproc_per_node", "2", "train.py"}) ==
        "torchrun is not a command | hgtrain launch takes the place of torchrun, with its flags: "
        "hgtrain launch ...");
  CHECK(
      refusal({"launch", "deepspeed", "train.py"}).ends_with("with its flags: hgtrain launch ..."));
  CHECK(refusal({"prepar"}).ends_with("did you mean 'data prepare'?"));
  CHECK(refusal({"tokenize"}).ends_with("| hgtrain help lists the commands"));
  CHECK(refusal({"--num_gpsu", "2"}).find("--num_gpus") != std::string::npos);
  CHECK(refusal({"--num", "2"}).find("no flag --num") != std::string::npos);  // no abbreviations
  CHECK(refusal({"--num_gpus", "many"}) ==
        "cannot understand --num_gpus = many | --num_gpus takes a whole number: GPUs to train on");
  CHECK(refusal({"--num-accelerators=gpu"}) ==
        "cannot understand --num_accelerators = gpu | leave it out: one worker is started for each "
        "visible GPU");
  CHECK(refusal({"--num_gpus"}).find("--num_gpus needs a value") == 0);
  CHECK(refusal({"--num_gpus", ""}).find("--num_gpus needs a value") == 0);
  CHECK(refusal({"--num_gpus", "2", "--num_gpus", "2"}).find("--num_gpus is given twice") == 0);
  CHECK(refusal({"my.json"}) ==
        "my.json is not a command | to train from it: hgtrain --config my.json");
  CHECK(refusal({"train.py", "--config", "my.json"})
            .starts_with("train.py is not a command | to start a script of your own: hgtrain "
                         "launch ... -- python3 train.py ...;"));
  CHECK(refusal({"--num_gpus", "8", "train.py", "--deepspeed", "ds.json"})
            .find("launch ... -- python3 train.py ...") != std::string::npos);
  CHECK(refusal({"--local_rank", "0"}).find("leave it out") != std::string::npos);
  CHECK(refusal({"--nproc", "2"}).find("--num_workers N") != std::string::npos);
  CHECK(refusal({"--lr", "1"}).find("--optimizer.params.lr") != std::string::npos);
  CHECK(refusal({"train", "my.json"}).find("hgtrain --config my.json") != std::string::npos);
  CHECK(refusal({"train", "my run.json"}).ends_with("hgtrain --config 'my run.json'"));
  CHECK(refusal({"my run.json"}).ends_with("hgtrain --config 'my run.json'"));
  CHECK(refusal({"--config", "a.json", "--num_gpus", "1", "2"}) ==
        "'2' is one argument too many for train | a value that has blanks needs quotes");
  CHECK(refusal({"--num_gpus", "1", "train.py", "--deepspeed_config", "a.json"})
            .starts_with("'train.py' is one argument too many for train | to start a script of "
                         "your own: hgtrain launch ... -- python3 train.py ...;"));
  CHECK(refusal({"launch", "w.sh"}).find("-- w.sh") != std::string::npos);
  CHECK(refusal({"data", "prepare", "books"}).find("--input books") != std::string::npos);
  CHECK(refusal({"data", "prepare", "--output", "x"}) ==
        "data prepare has no flag --output | did you mean --out?");
  CHECK(refusal({"--gradient_cliping", "1"}) ==
        "train has no flag --gradient_cliping | did you mean --gradient_clipping?");
  CHECK(refusal({"--layers", "4"}).ends_with("| use --model.num_hidden_layers VALUE"));
  CHECK(refusal({"train", "extra"}).find("one argument too many") != std::string::npos);
  CHECK(
      refusal({"--json", "launch"}) ==
      "'launch' is one argument too many for train | the command comes first: hgtrain launch ...");
}

TEST_CASE("a current folder that was removed is named before anything else is wrong") {
  const auto before = std::filesystem::current_path();
  {
    const TemporaryFolder folder;
    std::filesystem::current_path(folder.path());
  }
  const std::string said = refusal({"--resume"});
  std::filesystem::current_path(before);
  CHECK(said == "the current folder does not exist any more | cd into one that does");
}

TEST_CASE("a host that cannot be used may be meant as a hostfile") {
  const TemporaryFolder folder;
  write_new_file(folder / "hs", "");
  const auto said = [](const std::string& host) {
    try {
      run({"launch", "--hosts", host, "--", "true"});
    } catch (const Error& e) {
      return e.render();
    }
    return std::string("it ran");
  };
  CHECK_THAT(
      said(folder / "hs"),
      Catch::EndsWith(fmt::format("note: --hosts {0} names a host; --hostfile {0} reads the file\n",
                                  folder / "hs")));
  CHECK_THAT(said(folder / "none"), !Catch::Contains("note: "));
}

TEST_CASE("the error for a value that is none of the choices lists them") {
  CHECK(refusal({"--device", "gpu"}) == "--device gpu: use auto, cuda or cpu | did you mean cuda?");
  CHECK(refusal({"--device", "cup"}).ends_with("| did you mean cpu?"));
  CHECK(refusal({"--device", "a not in {b}"}) == "--device a not in {b}: use auto, cuda or cpu | ");
  CHECK(refusal({"--log-level", "verbose"}) ==
        "--log_level verbose: use debug, info, warning, error or off | did you mean debug?");
}
