// Work: a product of matrices.
#include <cmath>

#include "bench/paging/load_memory.h"
#include "bench/paging/load_order.h"
#include "bench/prefetch/load_kinds.h"

namespace comex::bench {

namespace {

constexpr std::uint64_t kBlock = 64;  // three blocks of doubles are 96 KiB: a second-level cache holds them
constexpr std::uint64_t kGamma = 0x9e3779b97f4a7c15;

// Small whole numbers: sums of their products are exact, so the result can be checked for equality.
double element(std::uint64_t seed, std::uint64_t index) {
  return static_cast<double>(mix(seed + index * kGamma) % 16) - 8;
}

class MatrixProduct : public LoadWork {
 public:
  MatrixProduct(std::uint64_t side, std::uint64_t seed)
      : side_(side), seed_(seed), a_(side * side), b_(side * side), c_(side * side) {}

  [[nodiscard]] bool ready() const { return a_ && b_ && c_; }
  void prepare() override {
    for (std::uint64_t i = 0; i < side_ * side_; ++i) a_[i] = element(seed_, i);
    for (std::uint64_t i = 0; i < side_ * side_; ++i) b_[i] = element(~seed_, i);
  }
  void work() override {
    for (std::uint64_t i = 0; i < side_; i += kBlock) {
      for (std::uint64_t j = 0; j < side_; j += kBlock) {
        for (std::uint64_t k = 0; k < side_; k += kBlock) multiply_block(i, j, k);
      }
    }
  }
  // C x = A (B x) for some x (Freivalds), and A and B are what they were.
  std::string check() override {
    for (std::uint64_t i = 0; i < side_ * side_; ++i) {
      if (a_[i] != element(seed_, i)) return "element " + std::to_string(i) + " of A is wrong";
      if (b_[i] != element(~seed_, i)) return "element " + std::to_string(i) + " of B is wrong";
    }
    std::vector<double> x(side_);
    for (std::uint64_t i = 0; i < side_; ++i) x[i] = element(seed_ ^ kGamma, i);
    const std::vector<double> wanted = times(a_, times(b_, x));
    const std::vector<double> found = times(c_, x);
    for (std::uint64_t i = 0; i < side_; ++i) {
      if (found[i] != wanted[i]) return "row " + std::to_string(i) + " of the product is wrong";
      result_ = mix(result_ + static_cast<std::uint64_t>(static_cast<std::int64_t>(found[i])));
    }
    return {};
  }
  [[nodiscard]] std::uint64_t result() const override { return result_; }
  std::byte* data() override { return reinterpret_cast<std::byte*>(a_.data()); }

 private:
  void multiply_block(std::uint64_t i0, std::uint64_t j0, std::uint64_t k0) {
    for (std::uint64_t i = i0; i < i0 + kBlock; ++i) {
      double* const to = &c_[i * side_ + j0];
      for (std::uint64_t k = k0; k < k0 + kBlock; ++k) {
        const double factor = a_[i * side_ + k];
        const double* const row = &b_[k * side_ + j0];
        for (std::uint64_t j = 0; j < kBlock; ++j) to[j] += factor * row[j];
      }
    }
  }
  [[nodiscard]] std::vector<double> times(const LoadMemory<double>& matrix, const std::vector<double>& x) const {
    std::vector<double> sums(side_, 0);
    for (std::uint64_t i = 0; i < side_; ++i) {
      for (std::uint64_t j = 0; j < side_; ++j) sums[i] += matrix[i * side_ + j] * x[j];
    }
    return sums;
  }

  std::uint64_t side_;  // a multiple of kBlock
  std::uint64_t seed_;
  LoadMemory<double> a_;
  LoadMemory<double> b_;
  LoadMemory<double> c_;
  std::uint64_t result_ = 0;
};

}  // namespace

std::unique_ptr<LoadWork> make_matrix_product(std::uint64_t bytes, std::uint64_t seed) {
  const std::uint64_t elements = bytes / (3 * sizeof(double));
  const auto side = static_cast<std::uint64_t>(std::sqrt(static_cast<double>(elements)));
  auto product = std::make_unique<MatrixProduct>(side / kBlock * kBlock, seed);
  return product->ready() ? std::move(product) : nullptr;
}

}  // namespace comex::bench
