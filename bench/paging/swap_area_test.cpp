#include "bench/paging/swap_area.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "bench/child.h"
#include "bench/paging/swap_file.h"

namespace comex::bench {
namespace {

constexpr std::uint64_t kBytes = std::uint64_t{1} << 20;

TEST(Swaps, parse_pathsWithoutTheHead) {
  EXPECT_TRUE(parse_swaps("Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n").empty());
  EXPECT_EQ(parse_swaps("Filename Type Size Used Priority\n"
                        "/dev/zram0                              partition\t1048572\t\t0\t\t-2\n"
                        "/a\\040folder/swap\\040file file 4 0 -3\n"),
            (std::vector<std::string>{"/dev/zram0", "/a folder/swap file"}));
}

class SwapFileTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string only_file() const {
    std::string found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_->path())) found = entry.path();
    return found;
  }
  Expected<TempFolder> folder_ = TempFolder::create();
};

TEST_F(SwapFileTest, create_takesTheSpaceAndGivesItBack) {
  {
    const Expected<std::unique_ptr<SwapArea>> area = SwapFile::create(folder_->path(), kBytes);
    ASSERT_TRUE(area) << area.error().message;
    EXPECT_EQ((*area)->path(), only_file());
    EXPECT_EQ(std::filesystem::file_size(only_file()), kBytes);
    EXPECT_TRUE(has_our_swap_header(only_file()));
    EXPECT_FALSE(SwapFile::create(folder_->path(), kBytes));
  }
  EXPECT_EQ(only_file(), "");
}

TEST_F(SwapFileTest, removeLeftovers_removesOnlyWhatIsOurs) {
  Expected<std::unique_ptr<SwapArea>> area = SwapFile::create(folder_->path(), kBytes);
  ASSERT_TRUE(area) << area.error().message;
  const std::string path = (*area)->path();
  ASSERT_TRUE(SwapFile::remove_leftovers(folder_->path(), {}));
  EXPECT_EQ(only_file(), "");
  std::ofstream(path) << "somebody's letters";
  ASSERT_TRUE(SwapFile::remove_leftovers(folder_->path(), {}));
  EXPECT_EQ(only_file(), path);
}

}  // namespace
}  // namespace comex::bench
