#pragma once

#include <memory>

#include "command.h"

namespace hgt {

// A function per command, each in the file with the command's name.
std::unique_ptr<Command> train_command();
std::unique_ptr<Command> launch_command();
std::unique_ptr<Command> status_command();
std::unique_ptr<Command> attach_command();
std::unique_ptr<Command> logs_command();
std::unique_ptr<Command> stop_command();
std::unique_ptr<Command> submit_slurm_command();
std::unique_ptr<Command> submit_k8s_command();
std::unique_ptr<Command> data_prepare_command();
std::unique_ptr<Command> data_inspect_command();
std::unique_ptr<Command> eval_command();
std::unique_ptr<Command> generate_command();
std::unique_ptr<Command> bench_train_command();
std::unique_ptr<Command> bench_gemm_command();
std::unique_ptr<Command> bench_ops_command();
std::unique_ptr<Command> bench_copy_command();
std::unique_ptr<Command> bench_comm_command();
std::unique_ptr<Command> config_check_command();
std::unique_ptr<Command> config_show_command();
std::unique_ptr<Command> config_schema_command();
std::unique_ptr<Command> config_init_command();
std::unique_ptr<Command> agent_command();
std::unique_ptr<Command> doctor_command();
std::unique_ptr<Command> completion_command();
std::unique_ptr<Command> version_command();

}  // namespace hgt
