// hgtrain's own sections, which DeepSpeed ignores: training, data, tokenizer, parallelism,
// distributed and hardware; and DeepSpeed's sections with keys of hgtrain's: checkpoint and
// activation_checkpointing.
#include <nlohmann/json.hpp>

#include "hgtrain/config/config.h"

#include "sections.h"

namespace hgt {
namespace {

using Json = nlohmann::ordered_json;

// With these limits no product of the lengths of a run, or of the parallel sizes, overflows.
constexpr double kMaxSteps = 1e12, kMaxSamples = 1e15, kMaxEpochs = 1e6, kMaxRanks = 1e4;

/// "969,30,1" (Megatron's train, valid, test shares) as the fraction for validation.
std::vector<Moved> split_to_fraction(const Json& value) {
  double train = 0, valid = 0, test = 0;
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  const int count = std::sscanf(text.c_str(), "%lf,%lf,%lf", &train, &valid, &test);
  const bool right = count >= 2 && train >= 0 && valid >= 0 && test >= 0 && train + valid > 0;
  return {{"data.valid_fraction", right ? Json(valid / (train + valid + test)).dump()
                                        : Json("split " + value.dump()).dump()}};
}

Field lr_schedule_section() {
  const auto slot = [](auto member) -> SlotOf {
    return [member](Config& c) -> Slot { return &(c.training.lr_schedule.*member); };
  };
  using S = LrScheduleConfig;
  const std::vector<std::string> types = {"constant", "cosine", "wsd"};
  const std::vector<std::string> decaying = {types.begin() + 1, types.end()};
  return section(
      "lr_schedule",
      "hgtrain's own schedules, instead of the section scheduler; default: a constant rate",
      {
          used("type", slot(&S::type), "after the warmup; wsd: constant, decay at the end")
              .one_of({{"constant"}, {"cosine"}, {"wsd"}}),
          used("warmup_iters", slot(&S::warmup_iters), "updates up to the optimizer's rate")
              .at_least(0)
              .at_most(kMaxSteps)
              .only(types)
              .aka({"warmup_steps", "lr_warmup_iters"}),
          used("decay_iters", slot(&S::decay_iters),
               "updates of the decay; 0: cosine decays in all after the warmup, wsd in a tenth of "
               "the "
               "run")
              .at_least(0)
              .at_most(kMaxSteps)
              .only(decaying),
          used("min_lr", slot(&S::min_lr), "rate at the end of the decay")
              .at_least(0)
              .only(decaying),
          used("decay_style", slot(&S::decay_style), "curve of the decay")
              .one_of({{"linear"}, {"cosine"}, {"minus_sqrt"}})
              .only({"wsd"}),
      });
}

Field training_section() {
  const In in{&Config::training};
  using T = TrainingConfig;
  Field out = section(
      "training", "length of the run, evaluation, seed",
      {
          used("train_iters", in(&T::train_iters), "optimizer steps of the run")
              .at_least(0)
              .at_most(kMaxSteps)
              .aka({"steps", "max_steps", "train_steps", "iters"}),
          used("train_samples", in(&T::train_samples),
               "length of the run in samples, instead of train_iters")
              .at_least(0)
              .at_most(kMaxSamples),
          used("num_epochs", in(&T::num_epochs),
               "length of the run in passes over the data, instead of train_iters")
              .at_least(0)
              .at_most(kMaxEpochs)
              .aka({"num_train_epochs", "epochs"}),
          used("seq_length", in(&T::seq_length),
               "tokens of a sample; default: model.max_position_embeddings")
              .at_least(0)
              .at_most(kMaxSequenceLength)
              .aka({"seq_len", "sequence_length", "sequence_len"}),
          used("seed", in(&T::seed), "seed of the initial weights and of dropout"),
          used("eval_interval", in(&T::eval_interval), "steps between evaluations; 0: none")
              .at_least(0)
              .aka({"eval_steps", "val_check_interval"}),
          used("eval_iters", in(&T::eval_iters), "batches of train_batch_size of one evaluation")
              .at_least(1)
              .at_most(kMaxSteps),
          used("no_decay_norms_and_biases", in(&T::no_decay_norms_and_biases),
               "no weight decay on vectors; DeepSpeed decays every parameter"),
          used("target_loss", in(&T::target_loss),
               "stop once the evaluation loss (without evaluation: the training loss) is this low"),
          used("patience", in(&T::patience),
               "stop after this many evaluations without improvement; 0: never")
              .at_least(0)
              .aka({"early_stopping_patience"}),
          used("ema_decay", in(&T::ema_decay),
               "share of the moving average of the parameters that an update keeps; it goes into "
               "the checkpoints; 0: none")
              .at_least(0)
              .at_most(1),
          used("deterministic", in(&T::deterministic),
               "the same bits for any number of threads and any cache of timed products; a few "
               "percent slower"),
          lr_schedule_section(),
          not_built("exit_duration_in_mins", Kind::kNumber, "0",
                    "stop with a checkpoint after this many minutes")
              .instead("let the scheduler send SIGUSR1 before the time is up: the run then saves "
                       "and exits with 75"),
          moved("log_interval", Kind::kNumber, "steps_per_print").aka({"logging_steps"}),
      });
  out.fields[0].default_varies = true;  // the run's length must be given
  out.example = R"("training": {"train_iters": 1000, "seq_length": 1024})";
  return out;
}

Field data_section() {
  const In in{&Config::data};
  using D = DataConfig;
  Field split = ignored(
      "split", Kind::kText,
      "Megatron's shares of train, valid and test (\"969,30,1\"), which set valid_fraction");
  split.key_class = KeyClass::kUsed;
  split.moves = split_to_fraction;
  Field out =
      section("data", "token files, validation split, order of the samples",
              {
                  used("train_data_path", in(&D::train),
                       "token file, list of them, or list of {\"path\", \"weight\"}")
                      .aka({"data_path", "train_data_paths", "train", "path"}),
                  used("valid_data_path", in(&D::valid),
                       "token files of the evaluation, in the forms of train_data_path")
                      .aka({"valid_data_paths", "val_data_path", "validation_data_path", "valid"}),
                  used("valid_fraction", in(&D::valid_fraction),
                       "share of the training files that is kept for evaluation")
                      .at_least(0)
                      .at_most(0.5)
                      .aka({"val_set_size", "validation_fraction", "val_fraction"}),
                  split,
                  used("seed", in(&D::seed), "seed of the order of the samples"),
                  used("shuffle", in(&D::shuffle), "false: read the files in order"),
                  used("separate_documents", in(&D::separate_documents),
                       "attention and positions start again at each end-of-text token in a sample"),
                  used("end_of_text", in(&D::end_of_text),
                       "id of that token; default: what the data was prepared with")
                      .at_least(0),
                  used("token_dtype", in(&D::token_dtype),
                       "type of files without a header (nanoGPT): auto is uint16")
                      .one_of({{"auto"}, {"uint16"}, {"uint32"}}),
                  ignored("test_data_path", Kind::kAny, "training uses no test set"),
                  ignored("data_impl", Kind::kText, "the kind of a file is recognised"),
                  ignored("data_cache_path", Kind::kText, "nothing is cached"),
                  ignored("num_workers", Kind::kInteger,
                          "token files are mapped, no loader processes are needed")
                      .aka({"num_loading_workers"}),
              });
  out.example = R"("data": {"train_data_path": "data/corpus", "valid_fraction": 0.01})";
  out.shorthand = [](const Json& value) {
    return value.is_string() || value.is_array() ? Json{{"train_data_path", value}}.dump() : "";
  };
  return out;
}

Field tokenizer_section() {
  const In in{&Config::tokenizer};
  Field out =
      section("tokenizer", "default: the one that the data was prepared with",
              {
                  used("type", in(&TokenizerConfig::type), "auto: the type in the data's manifest")
                      .one_of({{"auto"}, {"byte"}, {"bpe"}})
                      .aka({"tokenizer_type"}),
                  used("path", in(&TokenizerConfig::path), "tokenizer.json, or a folder with one")
                      .aka({"tokenizer_path", "tokenizer_name_or_path", "tokenizer_model"}),
                  not_built("vocab_file", Kind::kText, "null", "vocab.json of a GPT-2 tokenizer")
                      .instead("name its tokenizer.json as tokenizer.path"),
                  not_built("merge_file", Kind::kText, "null", "merges.txt of a GPT-2 tokenizer")
                      .instead("name its tokenizer.json as tokenizer.path"),
              });
  out.shorthand = [](const Json& value) {
    return value.is_string() ? Json{{"path", value}}.dump() : "";
  };
  return out;
}

Field parallelism_section() {
  const In in{&Config::parallelism};
  using P = ParallelismConfig;
  const auto one = [](Field field) {
    field.key_class = KeyClass::kNotBuilt;
    field.off_json = "1";
    return std::move(field).at_least(1).at_most(kMaxRanks);
  };
  return section(
      "parallelism", "how the workers share the model",
      {
          used("data_parallel_size", in(&P::data_parallel_size),
               "auto: all workers that the other sizes leave")
              .at_least(0)
              .auto_is("0")
              .aka({"dp", "data_parallel_degree"}),
          used("tensor_parallel_size", in(&P::tensor_parallel_size),
               "workers that share each layer, the embedding and the head")
              .at_least(1)
              .at_most(kMaxRanks)
              .aka({"tp", "tensor_parallel_degree", "tensor_model_parallel_size",
                    "model_parallel_size"}),
          used("pipeline_parallel_size", in(&P::pipeline_parallel_size),
               "stages that share the layers")
              .at_least(1)
              .at_most(kMaxRanks)
              .aka({"pp", "pipeline_parallel_degree", "pipeline_model_parallel_size",
                    "pipe_parallel_size"}),
          used("context_parallel_size", in(&P::context_parallel_size),
               "workers that share each sequence")
              .at_least(1)
              .at_most(kMaxRanks)
              .aka({"cp", "context_parallel_degree"}),
          one(not_built("sequence_parallel_size", Kind::kInteger, "1",
                        "Ulysses: workers that share each sequence"))
              .instead("parallelism.context_parallel_size also shares each sequence"),
          one(not_built("expert_parallel_size", Kind::kInteger, "1",
                        "workers that share the experts"))
              .aka({"expert_parallel_degree", "expert_model_parallel_size"})
              .instead("leave it out: no model has experts here"),
          used("sequence_parallel", in(&P::sequence_parallel),
               "the tensor-parallel workers split the activations that each of them would have "
               "whole: those of norms, dropout and residuals"),
          used("pipeline_schedule", in(&P::pipeline_schedule),
               "order of the micro-batches in a pipeline. 1f1b: one forward, then one backward, "
               "which holds few micro-batches at once; gpipe: all forwards first; interleaved: as "
               "1f1b, with several parts of the model for each stage, which then idles less; "
               "zb_h1: as 1f1b, with the gradients of weights while a stage would idle")
              .one_of({{"1f1b"}, {"gpipe"}, {"interleaved"}, {"zb_h1"}})
              .aka({"pipeline_parallel_schedule", "pp_engine"}),
          used("virtual_pipeline_stages", in(&P::virtual_pipeline_stages),
               "parts of the model that each stage of an interleaved pipeline has")
              .at_least(1)
              .at_most(kMaxRanks)
              .aka({"vpp", "virtual_pipeline_model_parallel_size",
                    "num_virtual_stages_per_pipeline_rank"}),
          used("pipeline_layer_split", in(&P::pipeline_layer_split),
               "layers of each stage, for example [9, 3]; if interleaved, of stage 0's first part, "
               "stage 1's first part, and so on; balanced: by their operations, with the head's")
              .one_of({{"balanced"}})
              .at_least(0),
      });
}

Field distributed_section() {
  const In in{&Config::distributed};
  return section(
      "distributed", "communication between the workers",
      {
          used("backend", in(&DistributedConfig::backend),
               "auto: nccl on GPUs; on CPUs shared memory on one machine, and TCP "
               "between machines. gloo is TCP alone; it also connects GPUs that NCCL "
               "cannot, slowly, through the host's memory")
              .one_of({{"auto"}, {"gloo"}, {"nccl"}})
              .aka({"distributed_backend"}),
          used("timeout_minutes", in(&DistributedConfig::timeout_minutes),
               "how long a collective waits for the other workers")
              .above(0)
              .at_most(1e6)
              .aka({"distributed_timeout_minutes"}),
          used("interface", in(&DistributedConfig::interface),
               "the network interface through which the workers of several hosts communicate, for "
               "hosts whose hostfile names none; default: the one with the address that ssh uses"),
          used(
              "push_data", in(&DistributedConfig::push_data),
              "hosts that lack the data, the weights or the tokenizer get them, at the same paths, "
              "from the machine on which the command is typed (with --detach, from the first "
              "host)"),
      });
}

Field hardware_section() {
  const In in{&Config::hardware};
  const auto later = [](std::string name, std::string help) {
    return not_built(std::move(name), Kind::kAny, "null", std::move(help));
  };
  Field out = section(
      "hardware", "the devices of the run",
      {
          used("device", in(&HardwareConfig::device), "auto: GPUs if there are any")
              .one_of({{"auto"}, {"cpu"}, {"cuda"}, {"gpu", KeyClass::kError, "use cuda"}}),
          used("threads", in(&HardwareConfig::threads),
               "CPU threads of a worker; 0: an equal share of the cores")
              .at_least(0)
              .at_most(4096)
              .auto_is("0"),
          used("oversubscribe", in(&HardwareConfig::oversubscribe),
               "workers share GPUs if there are more workers than GPUs: for tests, it is not "
               "faster"),
          used("cudnn", in(&HardwareConfig::cudnn),
               "in bf16 and fp16, use cuDNN's attention if it is installed and supports the shape; "
               "false: hgtrain's own kernels"),
          used("cudnn_deterministic", in(&HardwareConfig::cudnn_deterministic),
               "cuDNN's attention adds gradients in a fixed order, which takes memory and time; "
               "false: the bits differ from run to run, unless training.deterministic is true"),
          used("cuda_graphs", in(&HardwareConfig::cuda_graphs),
               "launch the kernels of a step as CUDA graphs; the results are the same"),
          later("device_groups", "machines of different kinds").aka({"groups"}),
          later("batch_split", "shares of the batch by kind of machine"),
          later("cross_group_backend", "communication between the kinds"),
      });
  out.aliases = {"hetero"};
  return out;
}

Field checkpoint_section() {
  const In in{&Config::checkpoint};
  using C = CheckpointConfig;
  const auto by_flag = [](std::string name, std::string help, std::string instead) {
    return not_built(std::move(name), Kind::kAny, "null", std::move(help))
        .instead(std::move(instead));
  };
  Field keep_best =
      used("keep_best", in(&C::keep_best),
           "save after each evaluation that is the best so far, and keep the best checkpoint in "
           "addition to the newest; default: true with training.patience")
          .auto_derived();
  keep_best.default_varies = true;
  return section(
      "checkpoint", "when checkpoints are written, and how many are kept",
      {
          used("save_interval", in(&C::save_interval),
               "steps between checkpoints; 0: only at the end and on a signal")
              .at_least(0)
              .aka({"save_steps", "interval", "checkpoint_interval", "checkpoint_factor"}),
          used("keep_last_n", in(&C::keep_last_n), "number of checkpoints that are kept; 0: all")
              .at_least(0)
              .aka({"save_total_limit", "keep_latest_k", "keep_last_n_checkpoints"}),
          std::move(keep_best),
          used("async_save", in(&C::async_save), "write checkpoints while training continues"),
          used("copy_to", in(&C::copy_to),
               "folder on another disk that gets a copy of each checkpoint; the run can be resumed "
               "there"),
          by_flag("save", "folder of the checkpoints",
                  "they are in RUN_DIR/checkpoints: choose RUN_DIR with --run_dir"),
          by_flag("load", "checkpoint to resume from", "type --resume PATH"),
          by_flag("load_tag", "checkpoint to resume from",
                  "type --resume RUN_DIR/checkpoints/step_N"),
          not_built("save_optim", Kind::kBool, "true", "optimizer state in the checkpoints"),
          not_built("load_optim", Kind::kBool, "true", "optimizer state from the checkpoint")
              .instead("set model.init to the checkpoint, which loads the weights only"),
          ignored("export_hf", Kind::kBool, "every checkpoint is an HF model folder"),
          ignored("tag_validation", Kind::kText, "a checkpoint is named by its step")
              .one_of({{"Ignore"}, {"Warn"}, {"Fail"}}),
          ignored("load_universal", Kind::kBool, "every checkpoint loads on any number of workers"),
          not_built("use_node_local_storage", Kind::kBool, "false",
                    "every machine saves to its own disk"),
          ignored("checkpoint_serialization", Kind::kBool, "checkpoints have no pickle files"),
          section("parallel_write", "",
                  {ignored("pipeline_stage", Kind::kBool, "all workers write them together")}),
          section(
              "writer", "",
              {
                  ignored("type", Kind::kText, "workers write checkpoints in one way"),
                  ignored("io_buffer_size", Kind::kInteger, "workers write checkpoints in one way"),
                  ignored("io_buffer_double", Kind::kBool, "workers write checkpoints in one way"),
                  ignored("show_statistics", Kind::kBool, "workers write checkpoints in one way"),
                  ignored("data_parallel", Kind::kText, "workers write checkpoints in one way"),
                  ignored("decoupled", Kind::kBool, "see checkpoint.async_save"),
                  ignored("io_multiplier", Kind::kNumber, "workers write checkpoints in one way"),
              }),
      });
}

Field activation_checkpointing_section() {
  const auto on = [](std::string name, std::string help) {
    return not_built(std::move(name), Kind::kBool, "false", std::move(help));
  };
  return section(
      "activation_checkpointing", "recompute activations in the backward pass",
      {
          on("enabled", "recompute")
              .instead("set activation_checkpointing.mode: full, or selective"),
          on("partition_activations", "split the kept activations between tensor-parallel workers")
              .instead("parallelism.sequence_parallel = true splits them"),
          on("cpu_checkpointing", "keep activations in the host's memory")
              .instead("remove it: activation_checkpointing.mode = full keeps only the output of "
                       "each layer"),
          ignored("contiguous_memory_optimization", Kind::kBool,
                  "activations always lie in memory that is planned before the first step"),
          ignored("number_checkpoints", Kind::kInteger,
                  "the size of the buffer of contiguous_memory_optimization"),
          ignored("synchronize_checkpoint_boundary", Kind::kBool,
                  "waiting for the GPU at each layer changes no result"),
          ignored("profile", Kind::kBool, "--profile times each op"),
          used(
              "mode", [](Config& c) -> Slot { return &c.recompute.mode; },
              "selective: norms and activation functions; full: all but a layer's output")
              .one_of({{"none"}, {"selective"}, {"full"}}),
          used(
              "num_layers", [](Config& c) -> Slot { return &c.recompute.num_layers; },
              "recompute only this many first layers; 0: all")
              .at_least(0)
              .aka({"checkpoint_num_layers"}),
      });
}

}  // namespace

std::vector<Field> run_sections() {
  return {training_section(),    data_section(),
          tokenizer_section(),   parallelism_section(),
          distributed_section(), hardware_section(),
          checkpoint_section(),  activation_checkpointing_section()};
}

}  // namespace hgt
