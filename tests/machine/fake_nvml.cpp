// A driver's library (libnvidia-ml.so.1) with as many GPUs as FAKE_GPUS says; -1: one that does not
// start, for the reason FAKE_NVML_RESULT; -2: one that never answers. FAKE_CAPABILITY is the GPUs'
// compute capability, and FAKE_MACHINE makes their UUIDs differ from those of other machines.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace {

constexpr int kMismatch = 18, kNoPermission = 4;
constexpr int kNotFound = 6;
constexpr int kHangs = -2;  // of FAKE_GPUS
constexpr std::size_t kMig = 1000;

int number(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoi(text) : otherwise;
}
int gpus() {
  return number("FAKE_GPUS", 0);
}

std::size_t number_of(void* device) {
  return reinterpret_cast<std::size_t>(device);
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  while (gpus() == kHangs) pause();
  return gpus() < 0 ? number("FAKE_NVML_RESULT", kMismatch) : 0;
}
int nvmlShutdown() {
  return 0;
}
const char* nvmlErrorString(int result) {
  return result == kMismatch       ? "Driver/library version mismatch"
         : result == kNoPermission ? "Insufficient Permissions"
                                   : "Success";
}
int nvmlSystemGetDriverVersion(char* text, unsigned room) {
  std::snprintf(text, room, "580.65.06");
  return 0;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(gpus());
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = reinterpret_cast<void*>(std::size_t{index} + 1);
  return 0;
}
int nvmlDeviceGetHandleByUUID(const char* uuid, void** device) {
  if (std::strcmp(uuid, "MIG-aaaa") != 0) return kNotFound;
  *device = reinterpret_cast<void*>(kMig);
  return 0;
}
int nvmlDeviceGetUUID(void* device, char* text, unsigned room) {
  const std::size_t number = number_of(device);
  const char* const machine = std::getenv("FAKE_MACHINE");
  if (number == kMig)
    std::snprintf(text, room, "MIG-aaaa");
  else
    std::snprintf(text, room, "GPU-%zu%zu-of-%s", number, number, machine ? machine : "the-test");
  return 0;
}
int nvmlDeviceGetName(void* device, char* text, unsigned room) {
  std::snprintf(text, room, number_of(device) == 1 ? "Older" : "Newer");
  return 0;
}
int nvmlDeviceGetMemoryInfo(void* device, unsigned long long* memory) {
  memory[0] = static_cast<unsigned long long>(number_of(device)) << 30;
  return 0;
}
int nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) {
  *major = number("FAKE_CAPABILITY", 80) / 10;
  *minor = number("FAKE_CAPABILITY", 80) % 10;
  return 0;
}
int nvmlDeviceGetMaxPcieLinkGeneration(void*, unsigned* generation) {
  *generation = 5;
  return 0;
}
int nvmlDeviceGetCurrPcieLinkWidth(void* device, unsigned* lanes) {
  *lanes = number_of(device) == 1 ? 8 : 16;
  return 0;
}
int nvmlDeviceGetMaxPcieLinkWidth(void*, unsigned* lanes) {
  *lanes = 16;
  return 0;
}
int nvmlDeviceGetPciInfo_v3(void* device, void* info) {  // nvmlPciInfo_t ends with the long id
  std::snprintf(static_cast<char*>(info) + 36, 32, "00000000:%02zX:00.0", 0xA0 + number_of(device));
  return 0;
}
/// Two of the first four are up.
int nvmlDeviceGetNvLinkState(void*, unsigned link, int* up) {
  *up = link % 2 == 0 ? 1 : 0;
  return link < 4 ? 0 : kNotFound;
}
/// NVLink between the first two GPUs.
int nvmlDeviceGetP2PStatus(void* from, void* to, int, int* status) {
  *status = number_of(from) + number_of(to) == 3 ? 0 : 1;
  return 0;
}
int nvmlDeviceGetTopologyCommonAncestor(void*, void*, int* level) {
  *level = 50;
  return 0;
}

}  // extern "C"
