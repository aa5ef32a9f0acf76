#include "bench/paging/memory_cgroup.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "bench/child.h"

namespace comex::bench {
namespace {

// A folder that looks like /sys/fs/cgroup.
class FakeCgroups : public ::testing::Test {
 protected:
  void put(const std::string& file, const std::string& text) {
    const std::filesystem::path path = folder_->path() + "/" + file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  [[nodiscard]] const std::string& mount() const { return folder_->path(); }

 private:
  Expected<TempFolder> folder_ = TempFolder::create();
};

TEST_F(FakeCgroups, find_version1) {
  put("memory/memory.limit_in_bytes", "9223372036854771712\n");
  put("unified/cgroup.controllers", "\n");
  const Expected<CgroupRoot> root = find_memory_cgroup(mount());
  ASSERT_TRUE(root);
  EXPECT_EQ(root->version, 1);
  EXPECT_EQ(root->path, mount() + "/memory");
}

TEST_F(FakeCgroups, find_version2) {
  put("cgroup.controllers", "cpuset cpu io memory pids\n");
  const Expected<CgroupRoot> root = find_memory_cgroup(mount());
  ASSERT_TRUE(root);
  EXPECT_EQ(root->version, 2);
  EXPECT_EQ(root->path, mount());
}

TEST_F(FakeCgroups, find_version2BesideVersion1) {
  put("unified/cgroup.controllers", "memory\n");
  const Expected<CgroupRoot> root = find_memory_cgroup(mount());
  ASSERT_TRUE(root);
  EXPECT_EQ(root->version, 2);
  EXPECT_EQ(root->path, mount() + "/unified");
}

TEST_F(FakeCgroups, find_noneWithoutTheController) {
  put("cgroup.controllers", "cpu memory_like pids\n");
  const Expected<CgroupRoot> root = find_memory_cgroup(mount());
  ASSERT_FALSE(root);
  EXPECT_EQ(root.error().code, Errc::unsupported);
}

TEST_F(FakeCgroups, create_leavesNothingWhenTheKernelRefuses) {
  const Expected<MemoryCgroup> group = MemoryCgroup::create({mount(), 1}, 1 << 20);
  ASSERT_FALSE(group);  // no memory.swappiness appears in a plain folder
  EXPECT_TRUE(std::filesystem::is_empty(mount()));
}

TEST_F(FakeCgroups, removeLeftover_removesOneOrNone) {
  EXPECT_TRUE(MemoryCgroup::remove_leftover({mount(), 1}));
  std::filesystem::create_directories(mount() + "/comex-bench-paging");
  EXPECT_TRUE(MemoryCgroup::remove_leftover({mount(), 1}));
  EXPECT_TRUE(std::filesystem::is_empty(mount()));
}

}  // namespace
}  // namespace comex::bench
