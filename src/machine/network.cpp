#include "hgtrain/machine/network.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <ifaddrs.h>
#include <map>
#include <netdb.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <net/if.h>

#include "hgtrain/base/error.h"
#include "hgtrain/base/host.h"

#include "folder_entries.h"

namespace hgt {
namespace {

namespace fs = std::filesystem;

std::string line_of(const fs::path& file) {
  std::string line;
  std::ifstream stream(file);
  std::getline(stream, line);
  return line;
}

/// 0 if the file does not exist, cannot be read, or contains -1.
int number_of(const fs::path& file) {
  int number = 0;
  std::ifstream(file) >> number;
  return std::max(number, 0);
}

/// Calls `visit(interface, numeric address, flags of the interface)` for each address.
template <class Visit>
void for_each_address(Visit visit) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr) continue;
    const int family = at->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    std::array<char, NI_MAXHOST> text{};
    const socklen_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (::getnameinfo(at->ifa_addr, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) ==
        0)
      visit(at->ifa_name, std::string(text.data()), at->ifa_flags);
  }
  ::freeifaddrs(list);
}

/// Interface -> its numeric addresses.
std::map<std::string, std::vector<std::string>> addresses() {
  std::map<std::string, std::vector<std::string>> out;
  for_each_address([&](const char* name, const std::string& address, unsigned) {
    out[name].push_back(address);
  });
  return out;
}

/// "4: ACTIVE" without the number.
std::string state_of(const fs::path& port) {
  const std::string line = line_of(port / "state");
  const std::size_t colon = line.find(": ");
  return colon == std::string::npos ? line : line.substr(colon + 2);
}

}  // namespace

Network look_at_network(const std::string& root) {
  Network out;
  auto known = addresses();
  for (const fs::path& folder : folder_entries(root + "/sys/class/net")) {
    const std::string name = folder.filename();
    if (name == "lo" || !fs::exists(folder / "mtu")) continue;
    out.interfaces.push_back({.name = name,
                              .state = line_of(folder / "operstate"),
                              .speed_mbit = number_of(folder / "speed"),
                              .mtu = number_of(folder / "mtu"),
                              .addresses = known[name]});
  }
  for (const fs::path& device : folder_entries(root + "/sys/class/infiniband"))
    for (const fs::path& port : folder_entries(device / "ports"))
      out.infiniband.push_back({.device = device.filename(),
                                .port = std::atoi(port.filename().c_str()),
                                .state = state_of(port),
                                .rate = line_of(port / "rate"),
                                .link_layer = line_of(port / "link_layer")});
  return out;
}

bool is_loopback(const std::string& address) {
  return address.starts_with("127.") || address == "::1" || address == "localhost";
}

std::string list_interfaces() {
  std::vector<std::string> interfaces;
  for (const auto& [name, list] : addresses())
    interfaces.push_back(fmt::format("{} ({})", name, fmt::join(list, ", ")));
  return fmt::format("it has {}", fmt::join(interfaces, ", "));
}

std::string interface_with(const std::string& address) {
  for (const auto& [name, list] : addresses())
    if (std::ranges::find(list, address) != list.end()) return name;
  return "";
}

std::string why_cut_off(const std::string& address) {
  std::string own, out;
  try {
    own = address_towards(address);
  } catch (const Error&) {
    return "it has no route to " + address;
  }
  for_each_address([&](const char* name, const std::string& other, unsigned flags) {
    if (other == own && (flags & IFF_RUNNING) == 0)
      out = fmt::format("its interface {} has no link", name);
  });
  return out;
}

std::string address_of(const std::string& name) {
  if (name.empty()) return "";
  const auto all = addresses();
  const auto interface = all.find(name);
  if (interface == all.end())
    throw Error(
        ErrorKind::kDevice,
        fmt::format("host {} has no network interface {} with an address", host_name(), name),
        list_interfaces());
  std::string out;
  for (const std::string& address : interface->second) {
    if (address.starts_with("fe80:")) continue;  // on a link, and an interface belongs to it
    if (out.empty() ||
        (out.find(':') != std::string::npos && address.find(':') == std::string::npos))
      out = address;
  }
  if (out.empty())
    throw Error(ErrorKind::kDevice,
                fmt::format("interface {} of host {} has no address that other hosts could use",
                            name, host_name()));
  return out;
}

}  // namespace hgt
