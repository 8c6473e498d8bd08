// A driver's library (libnvidia-ml.so.1) with as many GPUs as FAKE_GPUS says; -1: one that does not
// start.
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

constexpr int kMismatch = 18;
constexpr int kNotFound = 6;
constexpr std::size_t kMig = 1000;

int gpus() {
  const char* text = std::getenv("FAKE_GPUS");
  return text ? std::atoi(text) : 0;
}

std::size_t number_of(void* device) {
  return reinterpret_cast<std::size_t>(device);
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  return gpus() < 0 ? kMismatch : 0;
}
int nvmlShutdown() {
  return 0;
}
const char* nvmlErrorString(int result) {
  return result == kMismatch ? "Driver/library version mismatch" : "Success";
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
  *device = reinterpret_cast<void*>(kMig);
  return std::strcmp(uuid, "MIG-aaaa") == 0 ? 0 : kNotFound;
}
int nvmlDeviceGetUUID(void* device, char* text, unsigned room) {
  const std::size_t number = number_of(device);
  if (number == kMig)
    std::snprintf(text, room, "MIG-aaaa");
  else
    std::snprintf(text, room, "GPU-%zu%zu-of-the-test", number, number);
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

}  // extern "C"
