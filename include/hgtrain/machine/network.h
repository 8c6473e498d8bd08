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

/// Whether an address is one that only this machine can use: 127.0.1.1, "::1", "localhost".
bool is_loopback(const std::string& address);

/// "it has eth0 (10.0.0.7), lo (127.0.0.1, ::1)": the interfaces of this machine that have an
/// address.
std::string list_interfaces();

/// The interface that has the numeric address; "" if none has.
std::string interface_with(const std::string& address);

/// The numeric address of this machine on the route to `host`, a name or an address: "127.0.0.1"
/// for "localhost", and for its own name if /etc/hosts says so. Error(kPeer) if the name does not
/// resolve or there is no route.
std::string address_towards(const std::string& host);

/// What keeps this machine from reaching a numeric address, as far as it knows without sending
/// anything: "its interface eth0 has no link" if a cable is out or a switch is off, "it has no
/// route to 10.0.0.7"; "" = nothing that it knows.
std::string why_cut_off(const std::string& address);

/// The numeric address of the interface `name` of this machine, IPv4 if it has one; "" of "".
/// Error(kDevice) if there is no such interface, or it has no address that others can use.
std::string address_of(const std::string& name);

}  // namespace hgt
