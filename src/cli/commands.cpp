#include "commands.h"

namespace hgt {

Commands all_commands() {
  Commands commands;
  commands.push_back(train_command());
  commands.push_back(launch_command());
  commands.push_back(status_command());
  commands.push_back(attach_command());
  commands.push_back(logs_command());
  commands.push_back(stop_command());
  commands.push_back(submit_slurm_command());
  commands.push_back(submit_k8s_command());
  commands.push_back(data_prepare_command());
  commands.push_back(data_inspect_command());
  commands.push_back(eval_command());
  commands.push_back(generate_command());
  commands.push_back(bench_train_command());
  commands.push_back(bench_gemm_command());
  commands.push_back(bench_ops_command());
  commands.push_back(bench_copy_command());
  commands.push_back(bench_comm_command());
  commands.push_back(config_check_command());
  commands.push_back(config_show_command());
  commands.push_back(config_schema_command());
  commands.push_back(config_init_command());
  commands.push_back(agent_command());
  commands.push_back(doctor_command());
  commands.push_back(completion_command());
  commands.push_back(version_command());
  return commands;
}

}  // namespace hgt
