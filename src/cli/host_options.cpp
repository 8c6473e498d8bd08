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
  options.add("--num_nodes,--nnodes", flags.num_nodes, "only the first N of the hosts");
  options.add("--master_addr", flags.master_addr,
              "where the others find the first host (default: where ssh finds it)");
  options.add("--ssh_port", flags.ssh_port, "port of the hosts' ssh servers (default: ssh's)");
}

}  // namespace hgt
