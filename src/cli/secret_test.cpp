#include "cli/secret.h"

#include <gtest/gtest.h>

#include "cli/test_folder.h"

namespace comex {
namespace {

constexpr std::string_view kGood = "0123456789abcdef0123456789abcdef";

TEST(SecretTest, readSecret_stripsOneNewline) {
  const TestFolder folder;
  EXPECT_EQ(*read_secret(folder.file("a", std::string(kGood) + "\n")), kGood);
  EXPECT_EQ(*read_secret(folder.file("b", kGood)), kGood);
  EXPECT_EQ(*read_secret(folder.file("c", std::string(kGood) + "\n\n")), std::string(kGood) + "\n");
  EXPECT_EQ(*read_secret(folder.file("d", kGood, 0400)), kGood);
}

TEST(SecretTest, readSecret_refusesWhatOthersCanRead) {
  const TestFolder folder;
  for (const mode_t mode : {0640, 0604, 0660, 0644, 0620}) {
    const std::string path = folder.file("secret", kGood, mode);
    const auto secret = read_secret(path);
    ASSERT_FALSE(secret) << mode;
    EXPECT_EQ(secret.error().code, Errc::denied);
    EXPECT_NE(secret.error().message.find("chmod 600 " + path), std::string::npos);
  }
}

TEST(SecretTest, readSecret_refusesShortEmptyAndHuge) {
  const TestFolder folder;
  EXPECT_EQ(*read_secret(folder.file("just", std::string(16, 'x'))), std::string(16, 'x'));
  for (const auto& content : {std::string(), std::string("\n"), std::string(15, 'x') + "\n", std::string(4'098, 'x')}) {
    const auto secret = read_secret(folder.file("wrong", content));
    ASSERT_FALSE(secret) << content.size();
    EXPECT_NE(secret.error().message.find("openssl rand -hex 32"), std::string::npos);
    EXPECT_EQ(secret.error().message.find("xxx"), std::string::npos) << "never shows the secret";
  }
  EXPECT_TRUE(read_secret(folder.file("full", std::string(4'096, 'x') + "\n")));
}

TEST(SecretTest, readSecret_missingSaysHowToMakeOne) {
  const TestFolder folder;
  const auto secret = read_secret(folder.path("none"));
  ASSERT_FALSE(secret);
  EXPECT_NE(secret.error().message.find("openssl rand -hex 32 > " + folder.path("none")), std::string::npos);
}

TEST(SecretTest, readSecret_refusesPipesAndFolders) {
  const TestFolder folder;
  ASSERT_EQ(::mkfifo(folder.path("pipe").c_str(), 0600), 0);
  EXPECT_FALSE(read_secret(folder.path("pipe"))) << "and does not hang on it";
  EXPECT_FALSE(read_secret(folder.path("")));
}

}  // namespace
}  // namespace comex
