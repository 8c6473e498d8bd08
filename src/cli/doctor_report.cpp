#include "doctor_report.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "hgtrain/base/host.h"
#include "hgtrain/report/human.h"

namespace hgt {
namespace {

using Json = nlohmann::ordered_json;

std::string row(const std::string& name, const std::string& text) {
  return fmt::format("{:14}{}\n", name, text);
}

/// `text`, or `otherwise` if it is empty because nothing is known.
std::string known(const std::string& text, const char* otherwise = "not found") {
  return text.empty() ? otherwise : text;
}

std::string limit_text(const std::string& name, std::int64_t value) {
  if (value == kUnlimited) return "unlimited";
  return name == "memlock" ? human_bytes(value) : fmt::to_string(value);
}

std::string resources_text(const Resources& r) {
  std::string cores =
      fmt::format("{}, {} of {} usable, {}", r.cpu, r.usable_cores, human_plural(r.cores, "core"),
                  human_plural(r.numa_nodes, "NUMA node"));
  if (r.cpu_quota > 0) cores += fmt::format(", the control group allows {:.4g}", r.cpu_quota);
  if (!r.instructions.empty()) cores += fmt::format("; has {}", fmt::join(r.instructions, ", "));
  std::string memory =
      fmt::format("{}, {} available", human_bytes(r.memory_bytes), human_bytes(r.available_bytes));
  if (r.memory_limit_bytes != kUnlimited)
    memory += ", the control group allows " + human_bytes(r.memory_limit_bytes);
  std::string limits;
  for (const UserLimit& l : r.limits)
    limits += fmt::format("{}{} {} (hard {})", limits.empty() ? "" : ", ", l.name,
                          limit_text(l.name, l.soft), limit_text(l.name, l.hard));
  return row("CPU", cores) + row("memory", memory) +
         row("/dev/shm",
             fmt::format("{}, {} free", human_bytes(r.shm_bytes), human_bytes(r.shm_free_bytes))) +
         row("limits", limits);
}

std::string network_text(const Network& network) {
  std::string text;
  for (const NetworkInterface& i : network.interfaces)
    text += row(text.empty() ? "network" : "",
                fmt::format("{} {}{}, MTU {}{}{}", i.name, i.state,
                            i.speed_mbit > 0 ? fmt::format(", {} Mbit/s", i.speed_mbit) : "", i.mtu,
                            i.addresses.empty() ? "" : " ", fmt::join(i.addresses, " ")));
  if (text.empty()) text = row("network", "no interface but the loopback");
  std::string ports;
  for (const InfinibandPort& p : network.infiniband)
    ports += row(ports.empty() ? "RDMA" : "", fmt::format("{} port {}: {}, {}, {}", p.device,
                                                          p.port, p.link_layer, p.state, p.rate));
  return text + (ports.empty() ? row("RDMA", "no InfiniBand or RoCE device") : ports);
}

std::string gpu_text(std::size_t number, const VisibleGpu& gpu) {
  std::string text = fmt::format("{} {}, {}", number, known(gpu.name, "GPU"), known(gpu.uuid, ""));
  if (gpu.memory_bytes > 0) text += ", " + human_bytes(gpu.memory_bytes);
  if (gpu.compute_capability > 0) text += fmt::format(", sm_{}", gpu.compute_capability);
  if (gpu.pcie_generation > 0)
    text += fmt::format(", PCIe {} x{}", gpu.pcie_generation, gpu.pcie_width);
  if (gpu.nvlinks > 0) text += ", " + human_plural(gpu.nvlinks, "NVLink");
  if (gpu.numa_node >= 0) text += fmt::format(", NUMA node {}", gpu.numa_node);
  return text;
}

/// "0-1 NV, 0-2 SYS" for the GPUs that can be used.
std::string links_text(const std::vector<VisibleGpu>& gpus) {
  std::string text;
  for (std::size_t a = 0; a < gpus.size(); ++a)
    for (std::size_t b = a + 1; b < gpus.size(); ++b)
      if (const auto link = gpus[a].links.find(gpus[b].uuid); link != gpus[a].links.end())
        text += fmt::format("{}{}-{} {}", text.empty() ? "" : ", ", a, b, known(link->second, "?"));
  return text;
}

/// What a row says of the CUDA module, which its name is already.
std::string without_subject(const std::string& problem) {
  constexpr std::string_view kSubject = "the CUDA module ";
  return problem.starts_with(kSubject) ? problem.substr(kSubject.size()) : problem;
}

std::string gpus_text(const Machine& m, const Diagnosis& d) {
  const GpuList& all = m.devices.machine;
  std::string driver =
      known(all.driver_version.empty() ? m.files.kernel_driver : all.driver_version,
            m.driver.opened ? "of unknown version" : "none");
  if (m.driver.version > 0) driver += ", supports CUDA " + cuda_version_text(m.driver.version);
  std::string text = row("driver", driver);
  for (const CudaLibrary& library : m.libraries)
    text += row(library.name,
                library.file.empty() ? "not found" : library.version + "  " + library.file);
  text += row("CUDA module", m.module.opened ? m.module.build
                                             : known(without_subject(m.module.problem), "unknown"));
  text += row("GPUs", d.gpus + ": " + m.devices.found);
  for (std::size_t i = 0; i < m.devices.gpus.size(); ++i)
    text += row("", gpu_text(i, m.devices.gpus[i]));
  if (const std::string links = links_text(m.devices.gpus); !links.empty())
    text += row("GPU links", links);
  return text;
}

std::string findings_text(const char* kind, const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& f : findings)
    text += fmt::format("{}: {}\n  hint: {}\n", kind, f.message, f.hint);
  return text;
}

Json json_of(const std::vector<Finding>& findings) {
  Json out = Json::array();
  for (const Finding& f : findings) out.push_back({{"message", f.message}, {"hint", f.hint}});
  return out;
}

Json json_of(const VisibleGpu& gpu) {
  return {{"uuid", gpu.uuid},
          {"name", gpu.name},
          {"memory_bytes", gpu.memory_bytes},
          {"compute_capability", gpu.compute_capability},
          {"pci_bus_id", gpu.pci_bus_id},
          {"pcie_generation", gpu.pcie_generation},
          {"pcie_width", gpu.pcie_width},
          {"pcie_max_width", gpu.pcie_max_width},
          {"nvlinks", gpu.nvlinks},
          {"numa_node", gpu.numa_node},
          {"links", gpu.links}};
}

Json json_of(const std::vector<VisibleGpu>& gpus) {
  Json out = Json::array();
  for (const VisibleGpu& gpu : gpus) out.push_back(json_of(gpu));
  return out;
}

Json json_of(const Resources& r) {
  Json limits = Json::object();
  const auto number = [](std::int64_t value) { return value == kUnlimited ? Json() : Json(value); };
  for (const UserLimit& l : r.limits)
    limits[l.name] = {{"soft", number(l.soft)}, {"hard", number(l.hard)}};
  return {{"cpu", r.cpu},
          {"instructions", r.instructions},
          {"cores", r.cores},
          {"usable_cores", r.usable_cores},
          {"cpu_quota", r.cpu_quota > 0 ? Json(r.cpu_quota) : Json()},
          {"numa_nodes", r.numa_nodes},
          {"memory_bytes", r.memory_bytes},
          {"available_bytes", r.available_bytes},
          {"memory_limit_bytes", number(r.memory_limit_bytes)},
          {"shm_bytes", r.shm_bytes},
          {"shm_free_bytes", r.shm_free_bytes},
          {"limits", limits}};
}

Json json_of(const Network& network) {
  Json interfaces = Json::array(), ports = Json::array();
  for (const NetworkInterface& i : network.interfaces)
    interfaces.push_back({{"name", i.name},
                          {"state", i.state},
                          {"speed_mbit", i.speed_mbit},
                          {"mtu", i.mtu},
                          {"addresses", i.addresses}});
  for (const InfinibandPort& p : network.infiniband)
    ports.push_back({{"device", p.device},
                     {"port", p.port},
                     {"state", p.state},
                     {"rate", p.rate},
                     {"link_layer", p.link_layer}});
  return {{"interfaces", interfaces}, {"infiniband", ports}};
}

}  // namespace

std::string doctor_text(const Machine& machine, const Diagnosis& diagnosis) {
  const bool gpus = diagnosis.gpus == "usable";
  return row("hgtrain", HGT_VERSION " on " + host_name()) + resources_text(machine.resources) +
         network_text(machine.network) + gpus_text(machine, diagnosis) +
         findings_text("problem", diagnosis.problems) + findings_text("advice", diagnosis.advice) +
         (!diagnosis.problems.empty() ? "not ready: see the problems\n"
          : gpus                      ? "ready: training can use the GPUs\n"
                                      : "ready: training can use the CPU\n");
}

Json doctor_json(const Machine& m, const Diagnosis& d) {
  Json libraries = Json::array(), files = Json::array();
  for (const CudaLibrary& l : m.libraries)
    libraries.push_back({{"name", l.name}, {"version", l.version}, {"file", l.file}});
  for (const DeviceFile& f : m.files.devices)
    files.push_back({{"path", f.path}, {"can_be_opened", f.open_error == 0}});
  const GpuList& all = m.devices.machine;
  return {{"hgtrain", HGT_VERSION},
          {"host", host_name()},
          {"gpu_state", d.gpus},
          {"problems", json_of(d.problems)},
          {"advice", json_of(d.advice)},
          {"driver",
           {{"version", all.driver_version.empty() ? m.files.kernel_driver : all.driver_version},
            {"cuda", m.driver.version > 0 ? cuda_version_text(m.driver.version) : ""},
            {"device_files", files},
            {"pci_gpus", m.files.pci_gpus}}},
          {"libraries", libraries},
          {"cuda_module", {{"build", m.module.build}, {"problem", m.module.problem}}},
          {"cuda_visible_devices", m.selection ? Json(m.selection) : Json()},
          {"gpus", json_of(m.devices.gpus)},
          {"all_gpus", json_of(all.gpus)},
          {"resources", json_of(m.resources)},
          {"network", json_of(m.network)}};
}

}  // namespace hgt
