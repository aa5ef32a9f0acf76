// Each sealer by itself: what it lets past, and what it does not.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <set>
#include <string>

#include "base/units.h"
#include "pager/seal/checksum.h"
#include "pager/seal/choice.h"
#include "pager/seal/cipher.h"
#include "pager/seal/none.h"

namespace comex {
namespace {

using Page = std::array<std::byte, kPageSize>;
using Seal = std::array<std::byte, 32>;

Page page_of(unsigned number) {
  Page page;
  for (std::size_t i = 0; i < page.size(); ++i) page[i] = static_cast<std::byte>(number + i * 7);
  return page;
}

CipherKey& some_key() {
  static CipherKey key;
  std::memset(key.bytes.data(), 42, key.bytes.size());
  return key;
}

// What holds for each that looks at pages at all.
class SealersTest : public ::testing::TestWithParam<const Sealer*> {
 protected:
  const Sealer& sealer_ = *GetParam();
};

TEST_P(SealersTest, open_givesBackWhatWasSealed) {
  Page page = page_of(1);
  Seal seal{};
  sealer_.seal(page.data(), seal.data());
  EXPECT_EQ(page != page_of(1), sealer_.veils());
  EXPECT_TRUE(sealer_.open(page.data(), seal.data()));
  EXPECT_EQ(page, page_of(1));
}

TEST_P(SealersTest, open_refusesAPageOfWhichOneBitIsAnother) {
  for (const std::size_t byte : {std::size_t{0}, kPageSize / 2 + 3, kPageSize - 1}) {
    Page page = page_of(1);
    Seal seal{};
    sealer_.seal(page.data(), seal.data());
    page[byte] ^= std::byte{0x10};
    EXPECT_FALSE(sealer_.open(page.data(), seal.data()));
  }
}

TEST_P(SealersTest, open_refusesAPageOfAnotherSeal) {
  Page older = page_of(1);
  Page newer = page_of(2);
  Seal of_older{};
  Seal of_newer{};
  sealer_.seal(older.data(), of_older.data());
  sealer_.seal(newer.data(), of_newer.data());
  Page brought = older;
  EXPECT_FALSE(sealer_.open(brought.data(), of_newer.data())) << "a node brings back what was there before";
  EXPECT_TRUE(sealer_.open(older.data(), of_older.data()));
  EXPECT_TRUE(sealer_.open(newer.data(), of_newer.data()));
}

TEST_P(SealersTest, seal_isNoLongerThanItSays) {
  Page page = page_of(3);
  Seal seal;
  seal.fill(std::byte{0xee});
  sealer_.seal(page.data(), seal.data());
  for (std::size_t i = sealer_.size(); i < seal.size(); ++i) EXPECT_EQ(seal[i], std::byte{0xee});
}

const Checksum checksum;

INSTANTIATE_TEST_SUITE_P(Sealers, SealersTest,
                         ::testing::Values(&checksum,
                                           [] {
                                             static const Cipher cipher(some_key());
                                             return static_cast<const Sealer*>(&cipher);
                                           }()),
                         [](const auto& with) { return std::string(with.param->veils() ? "cipher" : "checksum"); });

TEST(Cipher, seal_samePageTwiceIsNotTheSame) {
  const Cipher cipher(some_key());
  Page one = page_of(1);
  Page other = page_of(1);
  Seal seal{};
  cipher.seal(one.data(), seal.data());
  cipher.seal(other.data(), seal.data());
  EXPECT_NE(one, other);
}

TEST(Cipher, seal_processesThatShareAKeyShareNoNonce) {
  CipherKey key;
  const Cipher one(key);
  const Cipher other(key);
  std::set<std::uint64_t> nonces;
  for (int i = 0; i < 100; ++i) {
    for (const Cipher* cipher : {&one, &other}) {
      Page page = page_of(1);
      Seal seal{};
      cipher->seal(page.data(), seal.data());
      std::uint64_t nonce = 0;
      std::memcpy(&nonce, seal.data(), sizeof nonce);
      EXPECT_TRUE(nonces.insert(nonce).second);
    }
  }
}

TEST(Cipher, open_refusesWhatAnotherKeyHasSealed) {
  CipherKey key;
  key.bytes[31] = std::byte{1};
  const Cipher mine(some_key());
  const Cipher another(key);
  Page page = page_of(1);
  Seal seal{};
  another.seal(page.data(), seal.data());
  EXPECT_FALSE(mine.open(page.data(), seal.data()));
}

// Test case 14 of the GCM specification: key, nonce and text are zeros. Its text is one block, the first of ours.
TEST(Cipher, seal_isAesGcm) {
  CipherKey key;
  key.pages = UINT64_MAX;  // the next nonce is 0
  const Cipher cipher(key);
  Page page{};
  Seal seal{};
  cipher.seal(page.data(), seal.data());
  constexpr std::array<unsigned char, 16> kExpected = {0xce, 0xa7, 0x40, 0x3d, 0x4d, 0x60, 0x6b, 0x6e,
                                                       0x07, 0x4e, 0xc5, 0xd3, 0xba, 0xf3, 0x9d, 0x18};
  EXPECT_EQ(std::memcmp(page.data(), kExpected.data(), kExpected.size()), 0);
}

TEST(Sealing, for_isAsTheUserSays) {
  EXPECT_EQ(sealing_for(false, true), Sealing::checksum);
  EXPECT_EQ(sealing_for(false, false), Sealing::none);
  EXPECT_EQ(sealing_for(true, false), Sealing::cipher);
}

}  // namespace
}  // namespace comex
