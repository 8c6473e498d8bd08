#include "foreign_flags.h"

#include <catch2/catch.hpp>

using namespace hgt;

TEST_CASE("flags of other launchers and trainers are known by what they are called here") {
  CHECK(hint_for_flag("train", "--nproc").find("--num_workers") != std::string::npos);
  CHECK(
      hint_for_flag("launch", "--deepspeed_config").starts_with("flags of the program follow it"));
  CHECK(hint_for_flag("train", "--bf16") == "use --bf16.enabled true");
  CHECK(hint_for_flag("train", "--warmup_steps") ==
        "use --scheduler.params.warmup_num_steps VALUE");
  CHECK(hint_for_flag("train", "--gradient_checkpointing").find("activation_checkpointing.mode") !=
        std::string::npos);
  CHECK(hint_for_flag("train", "--zero") == "use --zero_optimization.stage N");
  CHECK(hint_for_flag("train", "--offload_optimizer") ==
        "use --zero_optimization.offload_optimizer.device cpu");
  CHECK(hint_for_flag("generate", "--node_rank").empty());
  CHECK(hint_for_flag("bench train", "--hostfile") ==
        "bench train runs on one machine: ssh HOST 'cd FOLDER && hgtrain bench train ...'");
  CHECK(hint_for_flag("stop", "--hosts").empty());
  for (const char* command : {"train", "launch"}) {
    CHECK(hint_for_flag(command, "--num_machines").find("--hosts a:4,b:4") != std::string::npos);
    CHECK(hint_for_flag(command, "--machine_rank").find("--node_rank R") != std::string::npos);
    CHECK(hint_for_flag(command, "-np").starts_with("leave it out with --hosts a:2,b:2"));
    CHECK(hint_for_flag(command, "-p") == "use --ssh_port N");
    CHECK(hint_for_flag(command, "--virtual_local_rank").find("CUDA_VISIBLE_DEVICES=$LOCAL_RANK") !=
          std::string::npos);
    CHECK(hint_for_flag(command, "--launcher_args").find("`srun ARGS hgtrain") !=
          std::string::npos);
  }
  CHECK(hint_for_flag("launch", "--module").find("-- python3 -m MODULE") != std::string::npos);
  for (const char* flag : {"--tee", "--local_ranks_filter"})
    CHECK(hint_for_flag("train", flag).find("--show 0,2-5") != std::string::npos);
  CHECK(hint_for_flag("train", "--np").find("--num_workers N") != std::string::npos);
  CHECK(hint_for_flag("train", "--standalone").starts_with("leave it out"));
  CHECK(hint_for_flag("launch", "--standalone").empty());  // it has that flag
  CHECK(hint_for_flag("train", "--save") == "use --run_dir DIR");
  CHECK(hint_for_flag("train", "--load") == "use --resume auto, or --resume FOLDER");
  CHECK(hint_for_flag("train", "--eval_only") == "use hgtrain eval --config FILE");
  CHECK(hint_for_flag("generate", "--config").find("--model runs/NAME") != std::string::npos);
  CHECK(hint_for_flag("train", "--expert_model_parallel_size").find("not built") !=
        std::string::npos);
  CHECK(hint_for_flag("train", "--recompute_granularity").find("activation_checkpointing.mode") !=
        std::string::npos);
  for (const char* command : {"config show", "config check"}) {
    CHECK(hint_for_flag(command, "--num_workers").find("--world N") != std::string::npos);
    CHECK(hint_for_flag(command, "--lr") == "did you mean --optimizer.params.lr?");
  }
}

TEST_CASE("every flag of another launcher that is in the way is known for both commands") {
  for (const char* command : {"train", "launch"})
    for (const char* flag : {"--local_rank",
                             "--virtual_local_rank",
                             "--event_log_handler",
                             "--signals_to_handle",
                             "--logs_specs",
                             "--duplicate_stdout_filters",
                             "--local_addr",
                             "--autotuning",
                             "--multi_gpu",
                             "--gpu_ids",
                             "--gloo",
                             "--mpi",
                             "--network_interface",
                             "--min_np",
                             "--start_timeout",
                             "--wdir",
                             "-wdir",
                             "--oversubscribe",
                             "--host_discovery_script",
                             "--verbose",
                             "--mixed_precision",
                             "--dynamo_backend",
                             "--config_file",
                             "--cpu",
                             "--deepspeed",
                             "--timeline_filename"}) {
      INFO(command << " " << flag);
      CHECK_FALSE(hint_for_flag(command, flag).empty());
    }
  CHECK(hint_for_flag("train", "--local_rank").starts_with("leave it out"));
  CHECK(hint_for_flag("launch", "--start_timeout").ends_with("--join_timeout SECONDS"));
  CHECK(hint_for_flag("launch", "--logs_specs") == "use --log_dir, --tee and --redirects");
  CHECK(hint_for_flag("train", "--logs_specs").ends_with("of the run folder"));
  CHECK(hint_for_flag("launch", "--run_path") == "name the whole command: -- python3 FILE");
}

TEST_CASE("values of torchrun's --nproc_per_node are known") {
  for (const char* value : {"gpu", "auto"})
    CHECK(hint_for_value("--num_gpus", value).starts_with("leave it out"));
  CHECK(hint_for_value("--num_workers", "cpu").ends_with("--num_workers $(nproc)"));
  CHECK(hint_for_value("--num_workers", "many").empty());
  CHECK(hint_for_value("--steps", "auto").empty());
}

TEST_CASE("flags that change nothing are those of train and launch") {
  for (const char* command : {"train", "launch"}) {
    CHECK_FALSE(idle_flags(command).empty());
    for (const IdleFlag& idle : idle_flags(command))
      CHECK(hint_for_flag(command, idle.name).empty());
  }
  CHECK(idle_flags("eval").empty());
}

TEST_CASE("the last part of a config key leads to the key") {
  CHECK(hint_for_flag("train", "--lr") == "did you mean --optimizer.params.lr?");
  CHECK(hint_for_flag("train", "--seed") == "did you mean --data.seed or --training.seed?");
  CHECK(hint_for_flag("train", "--lora_r").find("every parameter in full") != std::string::npos);
  CHECK(hint_for_flag("train", "--tp") == "did you mean --parallelism.tensor_parallel_size?");
  CHECK(hint_for_flag("train", "--no_such_key").empty());
}

TEST_CASE("a word without its flag leads to the flag") {
  CHECK(hint_for_word("data prepare", "my books") == "use --input 'my books'");
  CHECK(hint_for_word("launch", "w.sh").ends_with("hgtrain launch ... -- w.sh ..."));
  CHECK(hint_for_word("train", "my.json") == "use hgtrain --config my.json");
  CHECK(hint_for_word("train", "w.py").find("launch ... -- python3 w.py ...") != std::string::npos);
  CHECK(hint_for_word("generate", "The") == "use --model FOLDER --prompt The");
  CHECK(hint_for_word("generate", "/") == "use --model / --prompt TEXT");
}
