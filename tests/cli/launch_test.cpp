#include <filesystem>
#include <fstream>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "hgtrain/base/file.h"
#include "hgtrain/machine/resources.h"

#include "launch/fake_ssh.h"
#include "program.h"
#include "support/process.h"
#include "support/roots.h"
#include "support/temporary_folder.h"

using namespace hgt;

namespace {

/// `hgtrain launch ARGS`, to its end; the shell does `first` before, which sets limits or sends
/// output elsewhere.
struct Launch {
  explicit Launch(std::vector<std::string> args, const std::string& first = ":") {
    args.insert(args.begin(), {"/bin/sh", "-c", first + "; exec \"$@\"", "sh",
                               build_root() + "/hgtrain", "launch"});
    Process process(args, folder.path());
    status = process.wait();
    out = process.out();
    err = process.err();
  }
  bool says(const std::string& text) const { return err.find(text) != std::string::npos; }

  TemporaryFolder folder;
  int status;
  std::string out, err;
};

/// Sets a variable for as long as it lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

}  // namespace

TEST_CASE("launch runs a program once per worker and passes its exit code on") {
  const Launch ok({"--num-workers", "2", "--env", "WORD=a b", "--", "sh", "-c",
                   "echo $RANK: $WORD $1", "sh", "--x"});
  CHECK(ok.status == 0);
  CHECK(ok.out.find("[r1] 1: a b --x\n") != std::string::npos);
  CHECK(ok.err.empty());
  CHECK(Launch({"--", "sh", "-c", "exit 19"}).status == 19);
  CHECK(Launch({"--", "sh", "-c", "kill -ABRT $$"}).status == 134);
}

TEST_CASE("torchrun's variables count as its flags do, unless the flag is given") {
  const Variable workers("PET_NPROC_PER_NODE", "3");
  const auto ranks = [](std::vector<std::string> args) {
    args.insert(args.end(), {"--", "sh", "-c", "echo $RANK/$WORLD_SIZE"});
    return Launch(args).out;
  };
  CHECK(ranks({}).find("[r2] 2/3\n") != std::string::npos);
  CHECK(ranks({"--nproc_per_node", "2"}).find("[r1] 1/2\n") != std::string::npos);
  const Variable nodes("PET_NNODES", "2"), rank("PET_NODE_RANK", "1");
  CHECK(Launch({"--", "true"}).says("the nodes do not know where node 0 is"));
}

TEST_CASE("an error about a flag that nobody has typed says where it comes from") {
  {
    const Variable rank("PET_NODE_RANK", "1");
    CHECK(Launch({"--hosts", "a,b", "--", "true"})
              .says("hgtrain: note: --node_rank comes from the variable PET_NODE_RANK\n"));
    CHECK_FALSE(Launch({"--hosts", "a,b", "--node_rank", "1", "--", "true"}).says("note:"));
  }
  {
    const Variable endpoint("PET_RDZV_ENDPOINT", "a:1");
    CHECK(Launch({"--hosts", "a,b", "--", "true"})
              .says("note: --rdzv_endpoint comes from the variable PET_RDZV_ENDPOINT\n"));
  }
  CHECK(Launch({"--nproc-per-node=two", "--", "true"})
            .says("note: --num_workers is another name of --nproc_per_node\n"));
  CHECK_FALSE(Launch({"--num_workers", "two", "--", "true"}).says("note:"));
}

TEST_CASE("a single worker's output is passed on as it is") {
  CHECK(Launch({"--num_workers", "1", "--", "printf", "a\\nb"}).out == "a\nb");
}

TEST_CASE("hosts that are typed after the program are the program's, which a line says") {
  for (const char* hosts : {"--hosts a,b", "--hostfile=machines"}) {
    const Outcome run = run_program(fmt::format("launch -- /bin/echo {}", hosts));
    CHECK(run.status == 0);
    CHECK_THAT(run.output, Catch::Contains(" comes after the program, so it is the program's"));
  }
  CHECK_THAT(run_program("launch -- /bin/echo --host a").output,
             !Catch::Contains("comes after the program"));
}

TEST_CASE("launch keeps logs and restarts") {
  const TemporaryFolder folder;
  const Launch run(
      {"--log_dir", folder / "logs", "--max_restarts", "1", "--", "sh", "-c",
       "echo attempt $TORCHELASTIC_RESTART_COUNT; exit $((1 - TORCHELASTIC_RESTART_COUNT))"});
  CHECK(run.status == 0);
  CHECK(run.says("hgtrain: rank 0 exited with code 1; restarting it (1 of 1)"));
  CHECK(contents(folder / "logs/rank_0.log") == "attempt 0\nattempt 1\n");
}

TEST_CASE("a file in place of the log folder is a wrong command line") {
  const TemporaryFolder folder;
  const std::string file = folder / "logs";
  std::ofstream(file) << "";
  for (const std::string& name : {file, file + "/more"}) {
    const Launch run({"--log_dir", name, "--", "true"});
    CHECK(run.status == 2);
    CHECK(run.says(file + " is not a folder that logs can be written to"));
    CHECK(run.says("hint: name another one: --log_dir FOLDER"));
  }
}

TEST_CASE("a restart leaves no descriptor open") {
  const Launch run({"--max_restarts", "60", "--", "sh", "-c", "exit 3"}, "ulimit -n 64");
  CHECK(run.status == 3);
  CHECK(run.says("(60 of 60)"));
  CHECK(run.says("it failed after 60 restarts"));
}

#ifndef __SANITIZE_ADDRESS__  // the sanitizer itself needs descriptors
TEST_CASE("too few descriptors are an error that names the limit to raise") {
  for (int limit = 6; limit <= 20; ++limit) {
    const Launch run({"--", "true"}, "ulimit -n " + std::to_string(limit));
    INFO(limit << ": " << run.err);
    CHECK(run.status == 3);
    CHECK(run.says("raise the limit with `ulimit -n`"));
    CHECK_FALSE(run.says("Invalid argument"));
    CHECK_FALSE(run.says("Bad file descriptor"));
  }
}
#endif

TEST_CASE("a full disk under the output ends no job") {
  const TemporaryFolder folder;
  const std::string done = folder / "done";
  const std::vector<std::string> job = {"--num_workers",
                                        "2",
                                        "--",
                                        "sh",
                                        "-c",
                                        "echo out $RANK; echo err >&2; : > \"$1\"$RANK",
                                        "sh",
                                        done};
  const std::string where = GENERATE(">/dev/full", "2>/dev/full", ">&-", "2>&-");
  const Launch run(job, "exec " + where);
  CHECK(run.status == 0);
  CHECK(std::filesystem::exists(done + "0"));
  CHECK(std::filesystem::exists(done + "1"));
  if (where == ">/dev/full") {
    CHECK(run.says("hgtrain: stdout cannot be written: No space left on device"));
    CHECK(run.says("hgtrain: 22 bytes of stdout were dropped"));
  }
}

TEST_CASE("a file that may not grow ends neither launcher nor job") {
  const TemporaryFolder folder;
  const Launch run({"--log_dir", folder / "logs", "--", "sh", "-c",
                    "head -c 300000 /dev/zero; echo finished >&2"},
                   "ulimit -f 200");
  CHECK(run.status == 0);
  CHECK(run.says("finished"));
  CHECK(run.says("File too large"));
}

TEST_CASE("the last lines of a program, and its name, reach a terminal as text") {
  const Launch run({"--num_workers", "1", "--", "sh", "-c", "printf '\\033]0;x\\a\\n'; exit 3"});
  CHECK(run.status == 3);
  CHECK(run.out == "\x1b]0;x\a\n");  // the program's own output is passed on as it is
  CHECK(run.says("    | \\u001b]0;x\\u0007\n"));
  CHECK(Launch({"--", "\x1b[31m"}).says("no program '\\u001b[31m' in PATH"));
}

TEST_CASE("launch refuses what it cannot start with exit code 2, before anything runs") {
  CHECK(Launch({"--num_workers", "2"}).says("no program to start is named"));
  const std::vector<std::vector<std::string>> wrong = {
      {"--", "no-such-program"},
      {"--num_workers", "0", "--", "true"},
      {"--num_workers", "2", "--num_gpus", "2", "--", "true"},
      {"--env", "RANK=3", "--", "true"},
      {"--env", "NAME", "--", "true"},
      {"--grace", "-1", "--", "true"},
      {"--grace", "nan", "--", "true"},
      {"--max_restarts", "-1", "--", "true"},
      {"--master_port", "70000", "--", "true"},
      {"--num_worker", "2", "--", "true"},
      {"true"},
      {"--include", "a:0", "--", "true"},
      {"--hosts", "localhost:1", "--num_workers", "2", "--", "true"},
      {"--ssh_port", "22", "--", "true"},
      {"--hosts", "a:2", "--include", "b", "--", "true"},
      {"--hosts", "a:2", "--num_nodes", "2", "--", "true"},
      {"--hosts", "a:2", "--include", "a:0", "--env", "CUDA_VISIBLE_DEVICES=1", "--", "true"},
      {"--", "/etc/hostname"},
      {"--", "/"}};
  for (const auto& args : wrong) {
    const Launch run(args);
    CHECK(run.status == 2);
    CHECK(run.says("hgtrain: error: "));
    CHECK(run.out.empty());
  }
}

TEST_CASE("a variable without a value leads to --export if there are hosts that lack it") {
  CHECK(Launch({"--env", "FOO", "--", "true"}).says("is inherited without --env"));
  CHECK(Launch({"--hosts", "a:2", "--env", "FOO", "--", "true"}).says(" by --export FOO\n"));
}

TEST_CASE("--num_gpus counts the GPUs that are visible") {
  const TemporaryFolder folder;
  std::filesystem::copy(build_root() + "/tests/machine/libnvidia-ml.so.1",
                        folder / "libnvidia-ml.so.1");
  const Variable path("LD_LIBRARY_PATH", folder.path());
  const Variable gpus("FAKE_GPUS", "4");
  const std::vector<std::string> print_rank = {"--", "sh", "-c",
                                               "echo $RANK of $WORLD_SIZE $CUDA_VISIBLE_DEVICES"};
  const auto with = [&](std::vector<std::string> args) {
    args.insert(args.end(), print_rank.begin(), print_rank.end());
    return Launch(args);
  };
  CHECK(with({}).out.find("[r3] 3 of 4") != std::string::npos);
  CHECK(with({"--num_gpus", "2"}).out.find("[r1] 1 of 2") != std::string::npos);
  const Launch too_many = with({"--num_gpus", "8"});
  CHECK(too_many.status == 3);
  CHECK(
      too_many.says("this command needs 8 GPUs, but 4 can be used: 4 GPUs (3 x Newer, 1 x Older)"));
  CHECK(with({"--num_gpus", "8", "--dry_run"}).status == 0);

  const Variable selection("CUDA_VISIBLE_DEVICES", "GPU-33,1");
  CHECK(with({}).out.find("[r1] 1 of 2 GPU-33,1") != std::string::npos);
  CHECK(with({"--num_gpus", "3"}).says("of which CUDA_VISIBLE_DEVICES=GPU-33,1 leaves 2"));
}

TEST_CASE("a dry run of training plans for the GPUs that training would take") {
  const TemporaryFolder folder;
  std::filesystem::copy(build_root() + "/tests/machine/libnvidia-ml.so.1",
                        folder / "libnvidia-ml.so.1");
  const Variable path("LD_LIBRARY_PATH", folder.path());
  const Variable gpus("FAKE_GPUS", "4");
  const auto plan = [](const std::string& flags) {
    return run_program("--config " + source_root() + "/configs/gpt2-124m.json --dry_run " + flags)
        .output;
  };
  CHECK(plan("").find("\nworkers     4 x ") != std::string::npos);
  CHECK(plan("").find(" on cuda\n") != std::string::npos);
  CHECK(plan("--num_gpus 8").find("\nworkers     8 x ") != std::string::npos);  // to be bought
  CHECK(plan("--gpu h100").find("\nworkers     1 x ") != std::string::npos);
  CHECK(plan("--num_workers 2").find(" on cpu\n") != std::string::npos);
}

TEST_CASE("workers that may share GPUs are planned with the smallest sizes, which they use") {
  const auto plan = [](const std::string& flags) {
    return run_program("--config " + source_root() +
                       "/configs/gpt2-124m.json --dry_run --num_gpus 2 " +
                       "--hardware.oversubscribe true --train_micro_batch_size_per_gpu " + flags)
        .output;
  };
  const auto memory = [](const std::string& text) {
    const std::size_t begin = text.find("\nmemory      ");
    REQUIRE(begin != std::string::npos);
    return text.substr(begin + 1, text.find('\n', begin + 1) - begin);
  };
  const std::string on_h100 = plan("16 --gpu h100");
  CHECK(memory(on_h100) == memory(plan("16")));
  CHECK_THAT(on_h100, Catch::Contains("\nlogits      384 rows of 50304 at a time, 43 times a "));
  const std::string tiny = plan("1 --gpu h100 --training.seq_length 1 --train_batch_size 2");
  CHECK_THAT(tiny, Catch::Contains("\nlogits      1 row of 50304 at a time, 1 time a "));
  CHECK_THAT(tiny, Catch::Contains("\nbatch       2 samples of 1 token = micro-batch 1 x "));
}

TEST_CASE("fp16 that is auto is off unless bf16 is auto, too, and the GPU does not support it") {
  const auto precision = [](const std::string& gpu, const std::string& flags) {
    const std::string out = run_program("--config " + source_root() +
                                        "/configs/gpt2-124m.json --dry_run --gpu " + gpu + flags)
                                .output;
    const std::size_t begin = out.find("\ntraining    ") + 13;
    return out.substr(begin, 4);
  };
  const std::string fp16 = " --fp16.enabled auto", bf16 = " --bf16.enabled auto";
  CHECK(precision("t4", fp16 + bf16) == "fp16");
  CHECK(precision("h100", fp16 + bf16) == "bf16");
  for (const char* gpu : {"t4", "h100"})
    CHECK(precision(gpu, fp16 + " --bf16.enabled false") == "fp32");
}

TEST_CASE("train takes the number of processes and the config as torchrun and deepspeed do") {
  const auto plan = [](const std::string& flags) {
    return run_program("--deepspeed_config " + source_root() +
                       "/configs/gpt2-124m.json --dry_run " + flags)
        .output;
  };
  {
    const TemporaryFolder folder;
    std::filesystem::copy(build_root() + "/tests/machine/libnvidia-ml.so.1",
                          folder / "libnvidia-ml.so.1");
    const Variable path("LD_LIBRARY_PATH", folder.path());
    const Variable gpus("FAKE_GPUS", "4");
    const std::string two = plan("--nproc-per-node 2 --use_env");
    CHECK(two.find("\nworkers     2 x ") != std::string::npos);
    CHECK(two.find(" on cuda\n") != std::string::npos);
    for (const char* all : {"gpu", "auto"})
      CHECK(plan("--nproc_per_node " + std::string(all)).find("\nworkers     4 x ") !=
            std::string::npos);
  }
  for (const char* hosts : {"", " --hosts localhost:4"}) {
    const std::string here = plan("--nproc_per_node 2 --device cpu" + std::string(hosts));
    CHECK(here.find("\nworkers     2 x ") != std::string::npos);
    CHECK(here.find(" on cpu\n") != std::string::npos);
  }
  CHECK(plan("--nproc_per_node 2 --hosts a:4,b:4").find("\nworkers     4 x ") != std::string::npos);
  CHECK(plan("--nproc_per_node 2 --num_gpus 2").find("keep one of them") != std::string::npos);
  CHECK(plan("--nproc_per_node 0").find("--nproc_per_node 0 is not between 1") !=
        std::string::npos);
}

TEST_CASE("numbers of hosts in the range that could share the batch are named if all cannot") {
  const auto says = [](const std::string& range) {
    return run_program("--config " + source_root() + "/configs/quickstart.json --dry_run " +
                       "--device cpu --hosts a:1,b:1,c:1 --num_nodes " + range)
        .output;
  };
  CHECK(says("1:3").find("hgtrain: note: of 1 to 3 hosts, 1 or 2 would fit: --num_nodes 1:2\n") !=
        std::string::npos);
  CHECK(says("3:3").find("would fit") == std::string::npos);
  CHECK(says("3").find("would fit") == std::string::npos);
}

TEST_CASE("--num_gpus counts the GPUs of each host") {
  const TemporaryFolder folder;
  std::filesystem::copy(build_root() + "/tests/machine/libnvidia-ml.so.1",
                        folder / "libnvidia-ml.so.1");
  const Variable path("LD_LIBRARY_PATH", folder.path());
  const Variable gpus("FAKE_GPUS", "4");
  const FakeSsh ssh(
      "[ $host = a2 ] && host=a; "
      "FAKE_MACHINE=$host SSH_CONNECTION='1 1 10.0.0.1 22' exec sh -c \"$last\"");
  const auto with = [](const std::string& hosts, const std::string& number) {
    return Launch(
        {"--hosts", hosts, "--num_gpus", number, "--", "sh", "-c", "echo $RANK of $WORLD_SIZE"});
  };
  CHECK(with("a,b:4", "2").out.find("[r3] 3 of 4") != std::string::npos);
  const Launch too_many = with("a,b:8", "8");
  CHECK(too_many.status == 3);
  for (const char* host : {"a", "b"})
    CHECK(too_many.says("host " + std::string(host) +
                        " cannot be used: programs see 4 GPUs there, and 8 are asked for"));
  const Launch twice = with("a,a2", "1");
  CHECK(twice.status == 3);
  CHECK(twice.says("ranks of hosts a and a2 would use the same GPU: GPU-11-of-a; these hosts are"));
  CHECK(with("a:2", "3").says("3 workers on each host are asked for, but a has 2 slots"));
}

TEST_CASE("a job that --launcher starts is that of the typed command, which no program sees") {
  const TemporaryFolder folder;
  std::ofstream(folder / "srun") << "#!/bin/sh\nwhile [ \"${1#--}\" != \"$1\" ]; do shift; done\n"
                                    "exec \"$@\"\n";
  std::filesystem::permissions(folder / "srun", std::filesystem::perms::owner_all);
  const Launch run(
      {"--launcher", "slurm", "--log_dir", folder / "logs", "--env", "A=b", "--", "env"},
      "export SLURM_JOB_ID=1 SLURM_JOB_NUM_NODES=1 PATH=" + folder.path() + ":$PATH");
  CHECK(run.status == 0);
  CHECK(run.out.find("HGTRAIN_TYPED_COMMAND") == std::string::npos);
  const auto file = nlohmann::json::parse(read_file(folder / "logs/run.json", 1 << 20));
  CHECK(file.at("command") == nlohmann::json{build_root() + "/hgtrain", "launch", "--launcher",
                                             "slurm", "--log_dir", folder / "logs", "--env",
                                             "A=***", "--", "env"});
}

TEST_CASE("--launcher openmpi needs hosts that mpirun can start, and mpirun") {
  const auto with = [](std::vector<std::string> args, const std::string& first = ":") {
    args.insert(args.begin(), {"--launcher", "openmpi"});
    args.insert(args.end(), {"--", "true"});
    return Launch(args, first);
  };
  CHECK(with({}).says("--launcher openmpi needs hosts"));
  CHECK(with({"--hosts", "a,b", "--no_ssh", "--node_rank", "0"})
            .says("cannot be combined with --node_rank: mpirun gives each host its number"));
  for (const std::vector<std::string>& hosts :
       {std::vector<std::string>{"--hosts", "me@a,b"}, {"--hosts", "a,b", "--ssh_port", "2222"}})
    CHECK(with(hosts).says("give the host its User and Port in ~/.ssh/config"));
  CHECK(with({"--hosts", "a,b", "--num_nodes", "1:2"}).says("over ssh, a job continues without"));
  CHECK(with({"--hosts", "a,b"}, "export OMPI_COMM_WORLD_SIZE=2")
            .says("mpirun has already started 2 of this command"));
  const Launch missing = with({"--hosts", "a,b"}, "export PATH=/nowhere");
  CHECK(missing.status == 2);
  CHECK(missing.says("there is no program 'mpirun' in PATH"));
  CHECK(missing.says("apt-get install openmpi-bin"));
  CHECK(Launch({"--launcher", "mpich", "--", "true"}).says("--launcher mpich is not built"));
  CHECK(Launch({"--launcher", "OpenMPI", "--", "true"}).says("--launcher openmpi needs hosts"));
  const Launch dry = with({"--hosts", "b:1,a:2", "--dry_run"}, "export PATH=/nowhere NCCL_DEBUG=x");
  CHECK(dry.status == 0);
  CHECK(dry.out.find("--map-by seq --wdir ") != std::string::npos);
  CHECK(dry.out.find(" --host b,a -x ") != std::string::npos);
  CHECK(dry.out.find(" -x NCCL_DEBUG -x ") != std::string::npos);
  CHECK(dry.out.find(" launch --hosts b:1,a:2 --no_ssh -- true\n") != std::string::npos);
}

TEST_CASE("hosts get the variables of DeepSpeed's files") {
  const FakeSsh ssh("FAKE_MACHINE=$host SSH_CONNECTION='1 1 10.0.0.1 22' exec sh -c \"$last\"");
  const TemporaryFolder home, work;
  std::ofstream(home / ".deepspeed_env") << "ONE=home\nTWO=home\n";
  std::ofstream(work / ".deepspeed_env") << "TWO=a secret\n";
  const Variable of_home("HOME", home.path());
  const auto with = [&](std::vector<std::string> args, const std::string& first = ":") {
    args.insert(args.end(), {"--", "sh", "-c", "echo $ONE/$TWO"});
    return Launch(args, "cd " + work.path() + "; " + first);
  };
  const Launch run = with({"--hosts", "a:1"});
  CHECK(run.out == "home/a secret\n");
  CHECK(run.says("hgtrain: the hosts get the variables of ./.deepspeed_env: TWO\n"));
  CHECK(run.says("hgtrain: the hosts get the variables of " + (home / ".deepspeed_env") +
                 ": ONE TWO\n"));
  CHECK_FALSE(run.says("secret"));
  CHECK(with({"--hosts", "a:1", "--env", "TWO=mine"}).out == "home/mine\n");
  std::ofstream(home / "other") << "ONE=other\n";
  CHECK(with({"--hosts", "a:1"}, "export DS_ENV_FILE=other").out == "other/\n");
  const Launch nowhere = with({"--hosts", "a:1"}, "export DS_ENV_FILE=nowhere");
  CHECK(nowhere.status == 2);
  CHECK(nowhere.says("DS_ENV_FILE=nowhere: there is no such file, neither here nor in $HOME"));
  CHECK(with({"--num_workers", "1"}).out == "/\n");
  const Launch mpirun = with({"--launcher", "openmpi", "--hosts", "a,b", "--dry_run"});
  CHECK(mpirun.out.find(" -x ONE ") != std::string::npos);
  CHECK(mpirun.out.find(" -x HGTRAIN_JOB_SECRET ") != std::string::npos);
  CHECK(mpirun.out.find("secret") == std::string::npos);
  CHECK(mpirun.out.find(" --mca plm_rsh_args '-o ConnectTimeout=10' ") != std::string::npos);
  const Variable users("OMPI_MCA_plm_rsh_args", "-o ConnectTimeout=30");
  CHECK(with({"--launcher", "openmpi", "--hosts", "a,b", "--dry_run"})
            .out.find(" '-o ConnectTimeout=30 -o ConnectTimeout=10' ") != std::string::npos);
  std::ofstream(work / ".deepspeed_env") << "TWO=1\nTHREE\n";
  const Launch wrong = with({"--hosts", "a:1"});
  CHECK(wrong.status == 2);
  CHECK(wrong.says("./.deepspeed_env:2: this line is not NAME=VALUE"));
}

TEST_CASE("deepspeed's defaults mean that a flag is not given") {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"--num_nodes", "-1", "--num_gpus", "-1", "--", "echo", "-1"},
        {"--num-nodes=-1", "--num_gpus=-1", "--", "echo", "-1"}}) {
    const Launch run(args);
    CHECK(run.status == 0);
    CHECK(run.out.find("-1\n") != std::string::npos);
  }
  CHECK(Launch({"--num_gpus", "-2", "--", "true"}).says("--num_gpus -2 is not between 1 and"));
}

TEST_CASE("localhost alone is this machine, and needs no ssh") {
  const FakeSsh ssh("echo ssh was called >&2; exit 255");
  const auto with = [](std::vector<std::string> args) {
    args.insert(args.end(),
                {"--", "sh", "-c", "echo $RANK of $WORLD_SIZE on $CUDA_VISIBLE_DEVICES"});
    return Launch(args);
  };
  CHECK(with({"--include", "localhost:0,2"}).out.find("[r1] 1 of 2 on 0,2\n") != std::string::npos);
  CHECK(with({"--hosts", "localhost:3", "--exclude", "localhost:1"})
            .out.find("[r1] 1 of 2 on 0,2\n") != std::string::npos);
  CHECK(with({"--hosts", "localhost:3"}).out.find("[r2] 2 of 3 on\n") != std::string::npos);
  CHECK(with({"--hosts", "localhost:3", "--num_workers", "1"}).out == "0 of 1 on\n");
  CHECK(with({"--include", "localhost:0", "--env", "CUDA_VISIBLE_DEVICES=1"}).says("keep one"));
  CHECK(with({"--hosts", "localhost,b"}).says("ssh was called"));
}

TEST_CASE("GPUs of this machine that a program sees can be excluded without a number of slots") {
  const Variable gpus("FAKE_GPUS", "4");
  const Variable libraries("LD_LIBRARY_PATH", build_root() + "/tests/machine");
  const auto devices_without = [](const std::string& slots) {
    const Launch run({"--exclude", "localhost:" + slots, "--", "sh", "-c",
                      "[ $RANK != 0 ] || echo $WORLD_SIZE on $CUDA_VISIBLE_DEVICES"});
    return run.out + run.err;
  };
  CHECK(devices_without("1").find("3 on 0,2,3\n") != std::string::npos);
  CHECK(devices_without("4").find("host localhost has no slot 4, only 0, 1, 2, 3") !=
        std::string::npos);
  const Launch dry({"--exclude", "localhost:0,1", "--dry_run", "--", "true"});
  CHECK(dry.out.find("rank  GPU\n   0  GPU-33-of-the-test\n   1  GPU-44-of-the-test\n") !=
        std::string::npos);
  const Variable some("CUDA_VISIBLE_DEVICES", "3,2");
  CHECK(devices_without("3") == "1 on 2\n");
}

TEST_CASE("flags of torchrun and deepspeed that mean the same are understood") {
  const TemporaryFolder folder;
  std::ofstream(folder / "hosts") << "a slots=1\nlocalhost slots=4\n";
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--nnodes=1", "--nproc-per-node=2"},
        {"-H", folder / "hosts", "-i", "localhost:1,3"},
        {"-H", folder / "hosts", "-e", "a@localhost:0-1"}}) {
    std::vector<std::string> args = flags;
    args.insert(args.end(), {"--", "sh", "-c", "echo $RANK of $WORLD_SIZE"});
    CHECK(Launch(args).out.find("[r1] 1 of 2\n") != std::string::npos);
  }
  const Launch role({"--nproc_per_node", "1", "--role", "worker", "--", "sh", "-c",
                     "echo $ROLE_NAME $LOCAL_RANK"});
  CHECK(role.out == "worker 0\n");
  CHECK(role.err.empty());
  for (const char* flag : {"--shutdown-timeout", "--grace"})
    CHECK(Launch({flag, "-1", "--", "true"}).says("--grace -1 is not a number of seconds"));
}

TEST_CASE("flags of torchrun and deepspeed that change nothing are accepted") {
  const Launch done({"--use_env", "--no_local_rank", "--no_ssh_check", "--force_multi",
                     "--monitor-interval", "5", "-q", "--num_workers", "1", "--", "echo", "said"});
  CHECK(done.status == 0);
  CHECK(done.out == "said\n");
  CHECK(done.err.empty());
  const Launch idle({"--start-method", "spawn", "--save_pid", "--", "true"});
  CHECK(idle.status == 0);
  CHECK(idle.err ==
        "hgtrain: --start_method has no effect here: each worker is a program of its own\n"
        "hgtrain: --save_pid has no effect here: no process outlives the command\n");
}

TEST_CASE("torchrun's words for a number of processes start as many") {
  const TemporaryFolder folder;
  std::filesystem::copy(build_root() + "/tests/machine/libnvidia-ml.so.1",
                        folder / "libnvidia-ml.so.1");
  const Variable path("LD_LIBRARY_PATH", folder.path());
  const auto world = [](const std::string& count) {
    const Launch run(
        {"--nproc-per-node", count, "--", "sh", "-c", "[ $RANK != 0 ] || echo of $WORLD_SIZE"});
    return run.status == 0 ? run.out.substr(run.out.find("of")) : run.err;
  };
  {
    const Variable gpus("FAKE_GPUS", "4");
    for (const char* count : {"gpu", "auto"}) CHECK(world(count) == "of 4\n");
    CHECK(world("cpu") == "of " + std::to_string(usable_cores()) + "\n");
  }
  const Variable none("FAKE_GPUS", "0");
  CHECK(world("gpu").find("this command needs 1 GPU") != std::string::npos);
  CHECK(world("auto") == world("cpu"));
  CHECK(Launch({"--hosts", "a,b", "--nproc-per-node", "cpu", "--", "true"})
            .says("--hosts a:16,b:16"));
}

TEST_CASE("all flags that launch does not have are named at once") {
  const Launch run({"-np", "4", "--allow-run-as-root", "--map-by", "slot", "python", "w.py", "-x"});
  CHECK(run.status == 2);
  for (const char* text : {"launch has no flag -np", "--allow_run_as_root", "--map_by",
                           "'python' is one argument too many for launch"})
    CHECK(run.says(text));
  CHECK_FALSE(run.says("'4'"));
  CHECK_FALSE(run.says("w.py'"));
  CHECK_FALSE(run.says("no flag -x"));
}

TEST_CASE("torchrun's --rdzv_conf gives the time in which nodes join") {
  const auto with = [](const std::string& conf) {
    return Launch({"--rdzv-conf", conf, "--num_workers", "1", "--", "echo", "said"});
  };
  CHECK(with("timeout=900, join_timeout=60").out == "said\n");
  const Launch idle = with("read_timeout=60,close_timeout=3");
  CHECK(idle.status == 0);
  CHECK(idle.says("hgtrain: read_timeout, close_timeout of --rdzv_conf has no effect here"));
  CHECK(with("wait=3").says("--rdzv_conf: there is no key 'wait'"));
  CHECK(with("timeout").says("--rdzv_conf: 'timeout' is not KEY=VALUE"));
  CHECK(with("timeout=1m").says("--rdzv_conf: timeout=1m is not a number of seconds"));
  CHECK(with("is_host=1").says("--node_rank and --master_addr"));
  CHECK(Launch({"--rdzv-conf", "timeout=900,join_timeout=0", "--nnodes", "2", "--node_rank", "1",
                "--master_addr", "127.0.0.1", "--", "true"})
            .says("--join_timeout 0 is not a number of seconds from 1"));
}

TEST_CASE("torchrun's --tee and --redirects say where the output goes") {
  for (const auto& [flag, is_printed] : {std::pair(std::vector<std::string>{"--tee", "3"}, true),
                                         {{"-t", "3", "-r", "3"}, true},
                                         {{"--redirects=3"}, false}}) {
    const TemporaryFolder folder;
    std::vector<std::string> args = flag;
    args.insert(args.end(),
                {"--num_workers", "1", "--log-dir", folder / "logs", "--", "echo", "said"});
    CHECK(Launch(args).out == (is_printed ? "said\n" : ""));
    CHECK(contents(folder / "logs/rank_0.log") == "said\n");
  }
}

TEST_CASE("torchrun's --redirects and --local_ranks_filter choose streams of local ranks") {
  const TemporaryFolder folder;
  const auto with = [&](std::vector<std::string> args) {
    args.insert(args.end(), {"--log_dir", folder / "logs", "--num_workers", "2", "--", "sh", "-c",
                             "echo out $RANK; echo err $RANK >&2"});
    return Launch(args);
  };
  const Launch some = with({"-r", "0:3,1:1"});
  CHECK(some.out.empty());
  CHECK(some.err == "[r1] err 1\n");
  CHECK(contents(folder / "logs/rank_0.log").find("out 0\n") != std::string::npos);
  const Launch one = with({"--local-ranks-filter", "1", "--tee", "3"});
  CHECK(one.out == "[r1] out 1\n");
  CHECK(one.err == "[r1] err 1\n");
}

TEST_CASE("torchrun's --tee without a folder makes one") {
  const TemporaryFolder folder;
  const Variable temporary("TMPDIR", folder.path());
  const Launch run({"--tee", "3", "--num_workers", "1", "--", "echo", "said"});
  CHECK(run.out == "said\n");
  const std::string begin = "hgtrain: output is in " + folder.path() + "/hgtrain_logs_";
  REQUIRE(run.err.starts_with(begin));
  const std::string logs = run.err.substr(22, begin.size() - 22 + 16);
  CHECK(contents(logs + "/rank_0.log") == "said\n");
  CHECK(Launch({"--tee", "3", "--detach", "--", "true"}).says("--detach needs --log_dir"));
}

TEST_CASE("a script may be named as torchrun and deepspeed take it") {
  const TemporaryFolder folder;
  std::ofstream(folder / "w.py") << "import os, sys; print(os.environ['RANK'], sys.argv[1:])";
  for (const std::vector<std::string>& flags :
       {std::vector<std::string>{"--standalone", "--nnodes=1", "--nproc-per-node=2"},
        {"--master_port=0", "--num_workers", "2"}}) {
    std::vector<std::string> args = flags;
    args.insert(args.end(), {folder / "w.py", "--num_workers", "3", "--deepspeed", "--help"});
    const Launch run(args);
    CHECK(run.out.find("[r1] 1 ['--num_workers', '3', '--deepspeed', '--help']\n") !=
          std::string::npos);
  }
  CHECK(Launch({"-m", "--num_workers", "1", "platform"}).status == 0);
  CHECK(Launch({"--num_workers", "1", "-m", "json.tool", "--help"}).out.find("usage:") == 0);
  CHECK(Launch({"--num_workers", "1", "--no-python", "echo", "-n", "x.py"}).out == "x.py");
  CHECK(Launch({"--launcher", "openmpi", "--hosts", "a,b", "--dry_run", "w.py", "--launcher", "x"})
            .out.find(" launch --hosts a,b --no_ssh -- python3 w.py --launcher x\n") !=
        std::string::npos);
  CHECK(Launch({"--module", "--no_python", "x"}).says("--module and --no_python are both given"));
  CHECK(Launch({"--output-filename", "d", "w.py"}).says("launch has no flag --output_filename"));
  for (const std::vector<std::string>& others :
       {std::vector<std::string>{"--hosts", "a,b"},
        {"--nnodes", "2", "--node_rank", "0", "--master_addr", "a"}}) {
    std::vector<std::string> args = others;
    args.insert(args.end(), {"--standalone", "w.py"});
    CHECK(Launch(args).says("--standalone means this machine alone"));
  }
}

TEST_CASE("a dry run prints what each rank would get, and starts nothing") {
  const TemporaryFolder folder;
  const Launch run({"--num_workers", "2", "--log_dir", folder / "logs", "--dry_run", "--", "touch",
                    folder / "made by it"});
  CHECK(run.status == 0);
  CHECK(run.out.find("command: touch '" + (folder / "made by it") + "'") != std::string::npos);
  const std::string title = "\nenvironment of rank 1, as that of rank 0 except for:\n";
  const std::size_t one = run.out.find(title);
  REQUIRE(one != std::string::npos);
  CHECK(run.out.find("  RANK=1\n") > one);
  CHECK(run.out.find("  WORLD_SIZE=2\n") < one);
  CHECK(run.out.rfind("  WORLD_SIZE=2\n") < one);
  CHECK_FALSE(std::filesystem::exists(folder / "made by it"));
  CHECK_FALSE(std::filesystem::exists(folder / "logs"));
}

TEST_CASE("a dry run over hosts prints once what is the same for all") {
  const TemporaryFolder folder;
  std::ofstream(folder / "hosts") << "a slots=1 gpus=3\nb slots=1 iface=eth1\n";
  const Launch run({"--hostfile", folder / "hosts", "--dry_run", "--", "true"});
  CHECK(run.status == 0);
  const std::size_t script = run.out.find("\nSCRIPT='exec /bin/sh -c ");
  REQUIRE(script != std::string::npos);
  CHECK(run.out.find("exec /bin/sh", script + 20) == std::string::npos);
  for (const char* host : {"a", "b"})
    CHECK(run.out.find(fmt::format(" -- {} \"$SCRIPT\"\n", host)) > script);
  const std::size_t of_b =
      run.out.find("\nenvironment of rank 1 on b, as that of rank 0 on a except for:\n");
  REQUIRE(of_b != std::string::npos);
  CHECK(run.out.find("  CUDA_VISIBLE_DEVICES=3\n") < of_b);
  for (const char* line : {"CUDA_VISIBLE_DEVICES is its host's", "NODE_RANK=1",
                           "HGTRAIN_ADDRESS is chosen at the start", "GLOO_SOCKET_IFNAME=eth1"})
    CHECK(run.out.find(fmt::format("  {}\n", line), of_b) != std::string::npos);
  CHECK(run.out.find("  WORLD_SIZE=", of_b) == std::string::npos);
}
