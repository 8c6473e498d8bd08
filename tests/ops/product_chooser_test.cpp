#include "cpu/product_chooser.h"

#include <cstdlib>

#include <catch2/catch.hpp>

#include "hgtrain/base/file.h"
#include "hgtrain/base/kernel_sizes.h"
#include "hgtrain/device/buffer.h"
#include "hgtrain/ops/gemm.h"

#include "cpu/mkl.h"
#include "file_in.h"
#include "reference.h"
#include "support/temporary_folder.h"

using namespace hgt;

namespace product_chooser_test {

using namespace hgt::cpu;

namespace {

const std::string kCpu = "a CPU";

/// A product large enough to be timed, with its operands.
struct Large {
  std::int64_t n = 384;
  Floats a = random_floats(n * n, 1), b = random_floats(n * n, 2), c = Floats(a.size());
  Product<float> product() {
    return {false, false, n, n, n, a.data(), n, b.data(), n, false, c.data(), n, true};
  }
};

/// Writes the choice for the product, instead of what was measured.
void write_choice(const TemporaryFolder& folder, const std::string& choice) {
  const std::string text = read_file(file_in(folder), 1 << 20);
  const std::size_t basis = text.find('\n') + 1, shapes = text.find('\n', basis);
  GemmChoices choices = choices_of(text, text.substr(basis, shapes - basis));
  REQUIRE(choices.size() == 1);
  choices.begin()->second = choice;
  write_file_atomically(file_in(folder), to_text(text.substr(basis, shapes - basis), choices));
}

}  // namespace

TEST_CASE("a choice is kept in each folder, and the first folder's is valid", "[choice]") {
  const TemporaryFolder run, caches;
  const std::vector folders{run.path(), caches.path()};
  Large large;
  const auto choose = [&](const std::vector<std::string>& in) {
    return ProductChooser(kCpu, in).choose(large.product(), ProductKernel::kOneDnn);
  };
  const ProductKernel measured = choose(folders);
  CHECK(read_file(file_in(run), 1 << 20) == read_file(file_in(caches), 1 << 20));

  for (const ProductKernel kernel : {ProductKernel::kOwn, ProductKernel::kOneDnn}) {
    write_choice(caches, std::string(name_of(kernel)));
    CHECK(choose({"", caches.path()}) == kernel);
    CHECK(choose(folders) == measured);
    const TemporaryFolder another_run;
    CHECK(choose({another_run.path(), caches.path()}) == kernel);
    CHECK(read_file(file_in(another_run), 1 << 20) == read_file(file_in(caches), 1 << 20));
  }
}

TEST_CASE("timing a product leaves its c alone; small products are not timed", "[choice]") {
  const TemporaryFolder caches;
  ProductChooser chooser(kCpu, {caches.path()});
  Large large;
  large.c.assign(large.c.size(), 7);
  chooser.choose(large.product(), ProductKernel::kOneDnn);
  CHECK(large.c == Floats(large.c.size(), 7.0f));

  Product<float> small = large.product();
  small.m = 8;
  for (const ProductKernel usual : {ProductKernel::kOwn, ProductKernel::kOneDnn})
    CHECK(chooser.choose(small, usual) == usual);
  CHECK(read_file(file_in(caches), 1 << 20).find("8 x 384") == std::string::npos);
}

TEST_CASE("a choice that names no kernel, and one whose library is gone, count as the usual kernel",
          "[choice]") {
  const TemporaryFolder caches;
  Large large;
  const auto choose = [&](ProductKernel usual) {
    return ProductChooser(kCpu, {caches.path()}).choose(large.product(), usual);
  };
  choose(ProductKernel::kOneDnn);
  for (const char* const choice : {"MKL", "none"}) {
    if (has_mkl() && choice == std::string("MKL")) continue;
    write_choice(caches, choice);
    CHECK(choose(ProductKernel::kOneDnn) == ProductKernel::kOneDnn);
    CHECK(choose(ProductKernel::kOwn) == ProductKernel::kOwn);
  }
}

TEST_CASE("bf16 is timed if oneDNN can compute it here, and is ours if not", "[choice]") {
  const TemporaryFolder caches;
  constexpr std::int64_t n = 384;
  const std::vector<BFloat16> a(n * n, BFloat16(1)), b = a;
  std::vector<float> c(a.size());
  const Product<BFloat16> p{false,    false, n,     n,        n, a.data(), n,
                            b.data(), n,     false, c.data(), n, true};
  ProductChooser chooser(kCpu, {caches.path()});
  const ProductKernel chosen = chooser.choose(p, ProductKernel::kOwn);
  if (multiplies_bf16())
    CHECK_THAT(read_file(file_in(caches), 1 << 20),
               Catch::Contains("384 x 384 x 384, bf16 to fp32\t" + std::string(name_of(chosen))));
  else
    CHECK(chosen == ProductKernel::kOwn);
}

TEST_CASE("gemm computes with the chosen kernel, and on a deterministic pool with the usual one",
          "[choice]") {
  const TemporaryFolder caches, run;
  const char* const before = std::getenv("XDG_CACHE_HOME");
  const std::string old = before ? before : "";
  setenv("XDG_CACHE_HOME", caches.path().c_str(), 1);
  Large large;
  const auto matrix = [&](Floats& x) { return tensor(x, {large.n, large.n}); };
  const auto product = [&](bool deterministic) {
    ThreadPool pool(1, deterministic);
    gemm(1, matrix(large.a), matrix(large.b), 0, matrix(large.c), Stream(pool));
    return std::pair(
        large.c, cpu_product_kernel(matrix(large.a), matrix(large.b), 0, matrix(large.c), pool));
  };
  Floats own(large.c.size());
  const Buffer scratch("scratch", kPackedWideFloats * std::int64_t{sizeof(float)});
  Product<float> p = large.product();
  p.c = own.data();
  packed_product(p, scratch.as<float>().data());

  choose_cpu_products(kCpu, run.path());
  product(false);
  std::vector<std::string> choices{"own", "oneDNN"};
  if (has_mkl()) choices.push_back("MKL");
  for (const std::string& choice : choices) {
    write_choice(run, choice);
    choose_cpu_products(kCpu, run.path());
    CHECK(product(false).second == choice);
    CHECK(product(true).second == "own");
    if (choice == "own") CHECK(product(false).first == own);
  }
  choose_cpu_products("another CPU", "");
  if (before)
    setenv("XDG_CACHE_HOME", old.c_str(), 1);
  else
    unsetenv("XDG_CACHE_HOME");
}

}  // namespace product_chooser_test
