#include "host_options.h"

namespace hgt {

void add_host_options(Options& options, HostFlags& flags) {
  options.add("--hosts", flags.hosts,
              "run on these hosts, over ssh: a:4,n[01-16]:8 with the workers of each");
  options.add("-H,--hostfile", flags.hostfile,
              "the same, from a file with lines of the form \"a slots=4\"");
  options.add("-i,--include", flags.include,
              "of the hosts, only these, or slots of them: a@b:0,2-3");
  options.add("-e,--exclude", flags.exclude, "all but these hosts, or slots of them");
  options
      .add("--num_nodes,--nnodes", flags.num_nodes,
           "only the first N of the hosts; MIN:MAX: at most MAX, and MIN are enough")
      .type_name("N");
  options.add("--elastic_timeout", flags.elastic_timeout,
              "seconds to wait for a host if too few are left (default: 600)");
  options.add("--master_addr", flags.master_addr,
              "where the others find the first host (default: where ssh finds it)");
  options.add("--master_port", flags.master_port,
              "MASTER_PORT (default: a free one); with --node_rank, where node 0 listens (29500)");
  options.add("--ssh_port", flags.ssh_port, "port of the hosts' ssh servers (default: ssh's)");
  options.add("--launcher", flags.launcher,
              "ssh (default); slurm: srun starts this command on each node of the allocation");
  options.add("--node_rank", flags.node_rank,
              "this is node R, counted from 0, of the nodes of --nnodes");
  options.add_flag("--no_ssh", flags.no_ssh,
                   "the same if hosts are named: this is the host number --node_rank of them");
  options.add("--job_secret_file", flags.job_secret_file,
              "file of the secret by which nodes know each other (default: $HGTRAIN_JOB_SECRET)");
  options.add("--job_secret_env", flags.job_secret_env, "the variable that has it");
  options.add("--join_timeout", flags.join_timeout_seconds,
              "seconds in which all nodes must join (default: 600)");
}

}  // namespace hgt
