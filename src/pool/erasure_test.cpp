#include "pool/erasure.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <random>
#include <vector>

#include <isa-l.h>

#include "base/units.h"

namespace comex {
namespace {

struct alignas(64) Page {
  std::array<std::byte, kPageSize> bytes;
  friend bool operator==(const Page&, const Page&) = default;
};

std::vector<Page> random_pages(std::uint32_t count) {
  std::mt19937 random(count);
  std::vector<Page> pages(count);
  for (Page& page : pages) {
    for (std::byte& byte : page.bytes) byte = static_cast<std::byte>(random());
  }
  return pages;
}

class ErasureTest : public ::testing::TestWithParam<Code> {
 protected:
  ErasureTest() {
    for (std::uint32_t parity = 0; parity < code_.parity; ++parity) {
      Pages data{};
      for (std::uint32_t i = 0; i < code_.data; ++i) data[i] = column_[i].bytes.data();
      erasure_.combine(erasure_.row(code_.data + parity), data, column_[code_.data + parity].bytes.data());
    }
  }
  // The page at a position, of the first others that are not in `lost`.
  Page solved(std::uint32_t wanted, std::uint32_t lost) {
    std::vector<std::uint32_t> others;
    Pages pages{};
    for (std::uint32_t i = code_.nodes(); i-- > 0 && others.size() < code_.data;) {
      if ((lost >> i & 1) != 0) continue;
      pages[others.size()] = column_[i].bytes.data();
      others.push_back(i);
    }
    Page page;
    erasure_.combine(erasure_.solve(wanted, others), pages, page.bytes.data());
    return page;
  }

  const Code code_ = GetParam();
  const Erasure erasure_{code_};
  std::vector<Page> column_ = random_pages(code_.nodes());
};
std::vector<Code> all_codes() {
  std::vector<Code> codes;
  for (std::uint32_t data = 2; data <= Code::kMostData; ++data) {
    for (std::uint32_t parity = 1; parity <= Code::kMostParity; ++parity) codes.push_back({data, parity});
  }
  return codes;
}
INSTANTIATE_TEST_SUITE_P(Codes, ErasureTest, testing::ValuesIn(all_codes()), [](const auto& code) {
  return std::to_string(code.param.data) + "_and_" + std::to_string(code.param.parity);
});

TEST_P(ErasureTest, combine_asIsalDoes) {
  std::vector<std::uint8_t> matrix(code_.nodes() * code_.data);
  std::vector<std::uint8_t> tables(32U * code_.data * code_.parity);
  gf_gen_rs_matrix(matrix.data(), static_cast<int>(code_.nodes()), static_cast<int>(code_.data));
  ec_init_tables(static_cast<int>(code_.data), static_cast<int>(code_.parity), &matrix[code_.data * code_.data],
                 tables.data());
  std::vector<Page> theirs(code_.parity);
  std::vector<std::uint8_t*> from;
  std::vector<std::uint8_t*> to;
  for (std::uint32_t i = 0; i < code_.data; ++i) from.push_back(reinterpret_cast<std::uint8_t*>(&column_[i]));
  for (Page& page : theirs) to.push_back(reinterpret_cast<std::uint8_t*>(&page));
  ec_encode_data(kPageSize, static_cast<int>(code_.data), static_cast<int>(code_.parity), tables.data(), from.data(),
                 to.data());
  for (std::uint32_t i = 0; i < code_.parity; ++i) EXPECT_EQ(theirs[i], column_[code_.data + i]);
}

TEST_P(ErasureTest, solve_whateverIsLost) {
  for (std::uint32_t lost = 1; lost < 1U << code_.nodes(); ++lost) {
    if (static_cast<std::uint32_t>(std::popcount(lost)) > code_.parity) continue;
    for (std::uint32_t i = 0; i < code_.nodes(); ++i) {
      if ((lost >> i & 1) == 0) continue;
      ASSERT_EQ(solved(i, lost), column_[i]) << i << " of those lost in " << lost;
    }
  }
}

}  // namespace
}  // namespace comex
