#pragma once

#include <string>
#include <vector>

namespace hgt {

/// A network interface other than the loopback.
struct NetworkInterface {
  std::string name, state;  ///< "eth0"; "up", "down", ...
  int speed_mbit = 0;       ///< 0 = not known, for example if it is virtual
  int mtu = 0;
  std::vector<std::string> addresses;
};

/// A port of an RDMA device.
struct InfinibandPort {
  std::string device;  ///< "mlx5_0"
  int port = 0;
  std::string state;       ///< "ACTIVE", "DOWN", ...
  std::string rate;        ///< "400 Gb/sec (4X NDR)"
  std::string link_layer;  ///< "InfiniBand", or "Ethernet" (RoCE)
};

struct Network {
  std::vector<NetworkInterface> interfaces;
  std::vector<InfinibandPort> infiniband;
};

/// Reads /sys below `root` ("" is the machine); addresses are those that this process sees.
Network look_at_network(const std::string& root = "");

/// The numeric address of the interface `name` of this machine, IPv4 if it has one; "" of "".
/// Error(kDevice) if there is no such interface, or it has no address that others can use.
std::string address_of(const std::string& name);

}  // namespace hgt
