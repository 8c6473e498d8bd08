#include "mkl.h"

#include <array>
#include <dlfcn.h>

namespace hgt::cpu {
namespace {

// MKL's public interface (mkl_service.h, mkl_cblas.h), with 32-bit sizes.
constexpr int kLp64 = 0, kSequential = 1, kReproducible = 2, kStrict = 0x10000;
constexpr int kRowMajor = 101, kNoTranspose = 111, kTranspose = 112;

using Sgemm32 = void(int layout, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                     const float* a, int lda, const float* b, int ldb, float beta, float* c,
                     int ldc);

struct Mkl {
  Sgemm32* sgemm = nullptr;
  std::string version;
};

template <class Fn>
Fn* find(void* library, const char* name) {
  return reinterpret_cast<Fn*>(dlsym(library, name));
}

Mkl open_mkl() {
  void* library = nullptr;
  for (const char* name : {"libmkl_rt.so.3", "libmkl_rt.so.2", "libmkl_rt.so"})
    if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return {};
  const auto set_interface = find<int(int)>(library, "MKL_Set_Interface_Layer");
  const auto set_threading = find<int(int)>(library, "MKL_Set_Threading_Layer");
  const auto set_reproducible = find<int(int)>(library, "MKL_CBWR_Set");
  const auto get_version = find<void(char*, int)>(library, "MKL_Get_Version_String");
  const auto sgemm = find<Sgemm32>(library, "cblas_sgemm");
  if (!set_interface || !set_threading || !set_reproducible || !get_version || !sgemm) return {};
  // The layers count as chosen from the first other call on.
  if (set_interface(kLp64) != kLp64 || set_threading(kSequential) != kSequential) return {};
  if (set_reproducible(kReproducible | kStrict) != 0 && set_reproducible(kReproducible) != 0)
    return {};
  std::array<char, 200> version{};
  get_version(version.data(), static_cast<int>(version.size() - 1));
  return {sgemm, version.data()};
}

const Mkl& mkl() {
  static const Mkl opened = open_mkl();
  return opened;
}

}  // namespace

bool has_mkl() {
  return mkl().sgemm != nullptr;
}

std::string mkl_version() {
  return mkl().version;
}

void mkl_product(const Product<float>& p) {
  const auto size = [](std::int64_t n) { return static_cast<int>(n); };
  const auto form = [](bool transpose) { return transpose ? kTranspose : kNoTranspose; };
  mkl().sgemm(kRowMajor, form(p.transpose_a), form(p.transpose_b), size(p.m), size(p.n), size(p.k),
              1, p.a, size(p.lda), p.b, size(p.ldb), p.add ? 1.0f : 0.0f, static_cast<float*>(p.c),
              size(p.ldc));
}

}  // namespace hgt::cpu
