#include "node/host_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "base/units.h"

namespace comex {
namespace {

constexpr const char* kMeminfo =
    "MemTotal:       16777216 kB\n"
    "MemFree:         1048576 kB\n"
    "MemAvailable:   12582912 kB\n"
    "HugePages_Total:      64\n"
    "HugePages_Free:       32\n"
    "HugePages_Rsvd:        8\n"
    "Hugepagesize:       2048 kB\n";

HostMemory host_of(std::uint64_t total, std::uint64_t available) {
  return HostMemory{.total = total, .available = available, .huge_free = 0, .limited = false};
}

TEST(ParseMeminfo, reads_the_fields_it_needs) {
  const auto host = parse_meminfo(kMeminfo);
  ASSERT_TRUE(host);
  EXPECT_EQ(*host, (HostMemory{16 * kGiB, 12 * kGiB, 48 * kMiB, false}));
}

TEST(ParseMeminfo, ignores_huge_pages_of_another_size) {
  const auto host =
      parse_meminfo("MemTotal: 100 kB\nMemAvailable: 50 kB\nHugePages_Free: 3\nHugepagesize: 1048576 kB\n");
  ASSERT_TRUE(host);
  EXPECT_EQ(*host, host_of(100 * 1024, 50 * 1024));
}

TEST(ParseMeminfo, refuses_what_is_not_meminfo) {
  for (const char* text : {"", "\n\n", "MemTotal: 5 kB", "MemTotal: many\nMemAvailable: 7 kB", "MemAvailable:"}) {
    const auto host = parse_meminfo(text);
    ASSERT_FALSE(host) << text;
    EXPECT_EQ(host.error().code, Errc::unsupported);
  }
}

// A file system root of our own.
class ReadHostMemory : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (std::filesystem::temp_directory_path() / "comex_host_XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    write("proc/meminfo", kMeminfo);
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  void expect(std::uint64_t total, std::uint64_t available, bool limited) {
    const auto host = read_host_memory(root_);
    ASSERT_TRUE(host) << host.error().message;
    EXPECT_EQ(*host, (HostMemory{total, available, 48 * kMiB, limited}));
  }

  std::filesystem::path root_;
};

TEST_F(ReadHostMemory, without_groups_is_meminfo) {
  expect(16 * kGiB, 12 * kGiB, false);
}

TEST_F(ReadHostMemory, without_meminfo_is_an_error) {
  std::filesystem::remove(root_ / "proc/meminfo");
  EXPECT_FALSE(read_host_memory(root_));
}

TEST_F(ReadHostMemory, v2_limit_less_what_is_used_but_not_cache) {
  write("proc/self/cgroup", "0::/app\n");
  write("sys/fs/cgroup/app/memory.max", "4294967296\n");
  write("sys/fs/cgroup/app/memory.current", "3221225472\n");
  write("sys/fs/cgroup/app/memory.stat", "anon 5\ninactive_file 1073741824\nactive_file 7\n");
  expect(4 * kGiB, 2 * kGiB, true);
}

TEST_F(ReadHostMemory, v2_without_limit_is_meminfo) {
  write("proc/self/cgroup", "0::/app\n");
  write("sys/fs/cgroup/app/memory.max", "max\n");
  write("sys/fs/cgroup/app/memory.high", "max\n");
  write("sys/fs/cgroup/app/memory.current", "3221225472\n");
  expect(16 * kGiB, 12 * kGiB, false);
}

TEST_F(ReadHostMemory, v2_the_tightest_group_on_the_way_counts) {
  write("proc/self/cgroup", "0::/outer/middle/inner\n");
  write("sys/fs/cgroup/outer/memory.max", "8589934592\n");
  write("sys/fs/cgroup/outer/memory.current", "7516192768\n");  // 1 GiB left, most of it others'
  write("sys/fs/cgroup/outer/middle/memory.max", "4294967296\n");
  write("sys/fs/cgroup/outer/middle/memory.current", "1073741824\n");
  write("sys/fs/cgroup/outer/middle/inner/memory.max", "max\n");
  expect(4 * kGiB, 1 * kGiB, true);
}

TEST_F(ReadHostMemory, v2_a_wide_group_that_others_have_nearly_filled_counts_too) {
  write("proc/self/cgroup", "0::/outer/inner\n");
  write("sys/fs/cgroup/outer/inner/memory.max", "4294967296\n");
  write("sys/fs/cgroup/outer/memory.max", "8589934592\n");
  write("sys/fs/cgroup/outer/memory.current", "8589934592\n");
  expect(4 * kGiB, 0, true);
}

TEST_F(ReadHostMemory, v2_stays_below_the_soft_limit) {
  write("proc/self/cgroup", "0::/app\n");
  write("sys/fs/cgroup/app/memory.max", "max\n");
  write("sys/fs/cgroup/app/memory.high", "2147483648\n");
  write("sys/fs/cgroup/app/memory.current", "1073741824\n");
  expect(2 * kGiB, 1 * kGiB, true);
}

TEST_F(ReadHostMemory, v2_in_a_container_the_limit_is_at_the_root) {
  write("sys/fs/cgroup/memory.max", "4294967296\n");
  write("sys/fs/cgroup/memory.current", "0\n");
  for (const char* path : {"0::/\n", "0::/docker/0123abcd\n", "0::/../../other\n"}) {
    write("proc/self/cgroup", path);
    expect(4 * kGiB, 4 * kGiB, true);
  }
}

TEST_F(ReadHostMemory, v1_limit_less_what_is_used_but_not_cache) {
  write("proc/self/cgroup", "5:cpu,cpuacct:/app\n4:hugetlb,memory:/app\n0::/\n");
  write("sys/fs/cgroup/memory/app/memory.limit_in_bytes", "4294967296\n");
  write("sys/fs/cgroup/memory/app/memory.usage_in_bytes", "3221225472\n");
  write("sys/fs/cgroup/memory/app/memory.stat", "inactive_file 9\ntotal_inactive_file 1073741824\n");
  expect(4 * kGiB, 2 * kGiB, true);
}

TEST_F(ReadHostMemory, v1_without_limit_is_meminfo) {
  write("proc/self/cgroup", "4:memory:/app\n");
  write("sys/fs/cgroup/memory/app/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/app/memory.usage_in_bytes", "3221225472\n");
  expect(16 * kGiB, 12 * kGiB, false);
}

TEST_F(ReadHostMemory, a_group_that_used_more_than_its_limit_has_nothing_left) {
  write("proc/self/cgroup", "0::/app\n");
  write("sys/fs/cgroup/app/memory.max", "1073741824\n");
  write("sys/fs/cgroup/app/memory.current", "1073745920\n");
  expect(1 * kGiB, 0, true);
}

TEST_F(ReadHostMemory, survives_malformed_group_files) {
  write("proc/self/cgroup", "\nnonsense\n4:memory\n::\n0::/app\n");
  write("sys/fs/cgroup/app/memory.max", "");
  write("sys/fs/cgroup/app/memory.current", "-5\n");
  expect(16 * kGiB, 12 * kGiB, false);
}

TEST(HostMemory, of_this_host_can_be_read) {
  const auto host = read_host_memory();
  ASSERT_TRUE(host) << host.error().message;
  EXPECT_GT(host->total, 0u);
  EXPECT_LE(host->available, host->total);
}

TEST(HostReserve, is_a_tenth_at_least_half_a_gib_at_most_half) {
  EXPECT_EQ(host_reserve(host_of(100 * kGiB, 0)), 10 * kGiB);
  EXPECT_EQ(host_reserve(host_of(2 * kGiB, 0)), 512 * kMiB);
  EXPECT_EQ(host_reserve(host_of(600 * kMiB, 0)), 300 * kMiB);
  EXPECT_EQ(host_reserve(host_of(0, 0)), 0u);
}

TEST(SpareMemory, is_what_is_available_less_the_reserve) {
  EXPECT_EQ(spare_memory(host_of(100 * kGiB, 60 * kGiB)), 50 * kGiB);
  EXPECT_EQ(spare_memory(host_of(100 * kGiB, 9 * kGiB)), 0u);
  EXPECT_EQ(spare_memory(HostMemory{100 * kGiB, 9 * kGiB, 2 * kGiB, false}), 2 * kGiB) << "huge pages come on top";
}

TEST(CheckFits, refuses_with_the_figures) {
  const HostMemory host = host_of(20 * kGiB, 18 * kGiB);
  EXPECT_TRUE(check_fits(16 * kGiB, host));
  const auto refused = check_fits(64 * kGiB, host);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::invalid);
  EXPECT_EQ(refused.error().message,
            "cannot lend 64.0 GiB: this host has 20.0 GiB, of which 16.0 GiB can be spared; lower --memory or use "
            "--memory auto");
  EXPECT_FALSE(check_fits(16 * kGiB + 1, host));
}

TEST(CheckFits, names_the_control_group_when_it_is_what_limits) {
  const auto refused = check_fits(4 * kGiB, HostMemory{2 * kGiB, 2 * kGiB, 0, true});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("this control group has 2.00 GiB"), std::string::npos);
}

}  // namespace
}  // namespace comex
