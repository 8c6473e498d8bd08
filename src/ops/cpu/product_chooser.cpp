#include "product_chooser.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include <fmt/format.h>

#include "hgtrain/base/kernel_sizes.h"
#include "hgtrain/base/log.h"
#include "hgtrain/ops/gemm.h"

namespace hgt::cpu {
namespace {

constexpr std::string_view kOwn = "own", kLibrary = "oneDNN";
constexpr int kRepeats = 3;
constexpr double kMuchFaster =
    0.97;  ///< ours is chosen if it takes less than this share of oneDNN's time

/// The CPU time of this thread, which other programs on the machine do not increase.
double cpu_seconds() {
  std::timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

template <class Fn>
double seconds_of(const Fn& fn) {
  const double begin = cpu_seconds();
  fn();
  return cpu_seconds() - begin;
}

/// A c for timing, with the same distance between rows as the cell's, because rows at certain
/// distances evict each other from the caches. Only the pages that are written take memory.
struct Scratch {
  explicit Scratch(const Product<float>& p)
      : c(new float[static_cast<std::size_t>(p.m * p.ldc)]), packed(new float[kPackedWideFloats]) {}
  std::unique_ptr<float[]> c, packed;
};

/// A part of the cell that takes some milliseconds.
Product<float> sample_of(Product<float> cell) {
  constexpr std::int64_t kRows = 1024, kColumns = 1152, kDepth = 2048;
  constexpr std::int64_t kMinRows = 64, kMaxFloats = 1 << 20;  // the rows of logits are long
  cell.m = std::min(cell.m, std::clamp(kMaxFloats / cell.ldc, kMinRows, kRows));
  cell.n = std::min(cell.n, kColumns);
  cell.k = std::min(cell.k, kDepth);
  return cell;
}

}  // namespace

ProductChooser::ProductChooser(const std::string& cpu, const std::vector<std::string>& folders) {
  const std::string basis = fmt::format("{}, {}, our kernel 1", cpu, library_version());
  for (const std::string& folder : folders)
    files_.push_back(std::make_unique<GemmCache>(folder, basis));
}

bool ProductChooser::prefers_own(const Product<float>& p) {
  if (2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) <
      kMinTimedFlops)
    return false;
  const std::tuple key{p.m, p.n, p.k, p.transpose_a, p.transpose_b, p.add};
  const std::lock_guard lock(mutex_);
  const auto found = own_.find(key);
  if (found != own_.end()) return found->second;
  const std::string shape =
      fmt::format("{} x {} x {}{}{}{}", p.m, p.n, p.k, p.transpose_a ? ", a transposed" : "",
                  p.transpose_b ? ", b transposed" : "", p.add ? ", added" : "");
  return own_.emplace(key, choose(shape, p)).first->second;
}

bool ProductChooser::choose(const std::string& shape, const Product<float>& cell) {
  std::string choice;
  for (const auto& file : files_)
    if (choice.empty()) choice = file->find(shape).value_or("");
  if (choice.empty()) {
    Product<float> p = sample_of(cell);
    const Scratch scratch(p);
    p.c = scratch.c.get();
    double library = 1e9, own = 1e9;
    for (int i = 0; i <= kRepeats; ++i) {
      const double seconds[] = {seconds_of([&] { library_product(p); }),
                                seconds_of([&] { packed_product(p, scratch.packed.get()); })};
      if (i == 0) continue;  // it touched the operands
      library = std::min(library, seconds[0]);
      own = std::min(own, seconds[1]);
    }
    choice = own < kMuchFaster * library ? kOwn : kLibrary;
    log_info("product {}: {} is chosen; our kernel takes {:.3f} of oneDNN's time", shape, choice,
             own / library);
  }
  for (auto file = files_.rbegin(); file != files_.rend(); ++file)
    choice = (*file)->keep(shape, choice);
  return choice == kOwn;
}

namespace {

std::unique_ptr<ProductChooser>& chooser() {
  static std::unique_ptr<ProductChooser> chooser;
  return chooser;
}

}  // namespace

ProductChooser* product_chooser() {
  return chooser().get();
}

}  // namespace hgt::cpu

namespace hgt {

void choose_cpu_products(const std::string& cpu, const std::string& run_dir) {
  cpu::chooser() =
      std::make_unique<cpu::ProductChooser>(cpu, std::vector{run_dir, gemm_cache_folder()});
}

}  // namespace hgt
