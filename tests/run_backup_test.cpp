// A program with a disk as the last resort.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>

#include <nlohmann/json.hpp>

#include "base/aligned_bytes.h"
#include "base/fd.h"
#include "run/backup_map.h"
#include "support/node.h"
#include "support/own_address.h"
#include "support/process.h"
#include "support/program.h"

#ifdef COMEX_RUN_LIBRARY

namespace comex::test {
namespace {

// Fills so many MiB, every word of them, and looks at all of it whenever it is told to.
constexpr const char* kFiller = R"(
import array, sys
words = (int(sys.argv[1]) << 20) // 8
data = array.array('Q', bytes(8 * words))
for i in range(0, words, 512): data[i:i + 512] = array.array('Q', range(i, i + 512))
def wrong(): return sum(data[i:i + 512] != array.array('Q', range(i, i + 512)) for i in range(0, words, 512))
print('filled', flush=True)
for line in sys.stdin:
    print('wrong', wrong(), flush=True)
    if line == 'end\n': break
)";

class RunBackup : public testing::Test {
 protected:
  Process start(const std::string& url, const std::string& mib, const std::vector<std::string>& flags = {},
                const std::vector<std::string>& before = {}) {
    std::vector<std::string> words = before;
    words.insert(words.end(), {COMEX_BINARY, "run", "--at-once", "--local", "16M", "--pool", url, "--backup", disk_});
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {"--", "/usr/bin/python3", folder_.file("filler.py", kFiller), mib});
    return Process(words, folder_.path("."));
  }
  static bool says(const Process& process, const std::string& what) {
    return wait_until([&] { return process.errors().find(what) != std::string::npos; });
  }
  // A file that the program's keeper has open, by how its name begins.
  static Fd file_of_keeper(const Process& program, const std::string& name) {
    const std::string files = "/proc/" + std::to_string(keeper_of(run_variable(program.pid()))) + "/fd";
    for (const auto& file : std::filesystem::directory_iterator(files)) {
      std::error_code gone;
      const std::string target = std::filesystem::read_symlink(file, gone).string();
      if (!gone && target.starts_with(name)) return Fd(::open(file.path().c_str(), O_RDWR | O_CLOEXEC));
    }
    return {};
  }
  // All that has landed is on the disk: the map of the backup says so, and has for a while: what left last may take a
  // moment to land.
  static bool caught_up(const Process& program) {
    const Fd file = file_of_keeper(program, "/memfd:comex-backup");
    void* const map = ::mmap(nullptr, kBackupMapBytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, file.get(), 0);
    if (map == MAP_FAILED) return false;
    const std::span entries(static_cast<const BackupEntry*>(map), 4096);
    auto since = Clock::now();
    const bool soon = wait_until([&] {
      const auto has = [&](auto word) {
        return std::any_of(entries.begin(), entries.end(), [&](const BackupEntry& each) { return (each.*word) != 0; });
      };
      if (!has(&BackupEntry::on_disk) || has(&BackupEntry::written)) since = Clock::now();
      return Clock::now() >= since + Millis(1000);
    });
    ::munmap(map, kBackupMapBytes);
    return soon;
  }
  [[nodiscard]] nlohmann::json stats() const {
    std::ifstream file(folder_.path("stats.json"));
    return nlohmann::json::parse(file);
  }
  // What went to and from the disk, of the "nodes" of the report.
  [[nodiscard]] nlohmann::json disk_traffic() const {
    const nlohmann::json report = stats();
    for (const auto& node : report["nodes"]) {
      if (node["url"] == "disk " + disk_) return node;
    }
    return {};
  }

  TestFolder folder_;
  const std::string disk_ = [this] {
    std::filesystem::create_directory(folder_.path("disk"));
    return folder_.path("disk");
  }();
};

TEST_F(RunBackup, a_full_pool_goes_on_to_the_disk) {
  const TestNode node;  // 16 MiB
  auto program = start(node.url(Over::shm).text(), "56", {"--stats", folder_.path("stats.json"), "--checksums", "off"});
  ASSERT_EQ(program.read_line(), "filled") << program.errors();
  EXPECT_TRUE(says(program, "the pool is full (16.0 MiB of unix://")) << program.errors();
  EXPECT_TRUE(says(program, "the program's pages go to the disk in " + disk_)) << program.errors();
  EXPECT_EQ(program.ask("look"), "wrong 0");
  EXPECT_TRUE(std::filesystem::is_empty(disk_)) << "the file has no name";
  EXPECT_EQ(program.ask("end"), "wrong 0");
  EXPECT_EQ(program.wait(), 0) << program.errors();
  EXPECT_GT(disk_traffic()["bytes_written"], 16 << 20);
  EXPECT_GT(disk_traffic()["bytes_read"], 16 << 20);
  EXPECT_LT(stats()["local_peak_bytes"], 17 << 20);
  EXPECT_GT(stats()["backup"]["used_bytes_peak"], 16 << 20);
  EXPECT_TRUE(stats()["backup"].contains("pages_behind"));
}

TEST_F(RunBackup, every_word_is_right_with_most_of_it_on_the_disk) {
  const TestNode node;
  for (const char* const link : {"shm", "tcp"}) {
    const std::string url = node.url(link == std::string("shm") ? Over::shm : Over::tcp).text();
    const std::string secret = folder_.file("secret", TestNode::kSecret);
    const Outcome outcome = run_comex(
        {"run", "--at-once",   "--local", "16M", "--pool",    url, "--secret-file", secret, "--backup",  disk_,
         "--",  COMEX_CHECKER, "--seed",  "21",  "--threads", "2", "--set",         "64",   "--seconds", "1"},
        folder_.path("."), Millis(60'000));
    EXPECT_EQ(outcome.code, 0) << link << ": " << outcome.errors;
  }
}

TEST_F(RunBackup, a_disk_without_room_for_all_of_it) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can mount a small disk";
  const TestNode node;
  // A disk that nobody else sees, and that goes with the program.
  auto program = start(
      node.url(Over::shm).text(), "48", {"--hard", "400M", "--backup-size", "64M"},
      {"/usr/bin/unshare", "--mount", "/bin/sh", "-c", R"(mount -t tmpfs -o size=8m none "$0" && exec "$@")", disk_});
  ASSERT_EQ(program.read_line(), "filled") << program.errors();
  EXPECT_TRUE(says(program, "--backup " + disk_ + ": no more room: No space left on device")) << program.errors();
  EXPECT_TRUE(says(program, "the program keeps its pages here beyond --local")) << program.errors();
  EXPECT_EQ(program.ask("end"), "wrong 0");
  EXPECT_EQ(program.wait(), 0) << program.errors();
}

TEST_F(RunBackup, a_bound_that_is_reached) {
  const TestNode node;
  auto program = start(node.url(Over::shm).text(), "48", {"--hard", "400M", "--backup-size", "8M"});
  ASSERT_EQ(program.read_line(), "filled") << program.errors();
  EXPECT_TRUE(says(program, "the program keeps its pages here beyond --local")) << program.errors();
  EXPECT_EQ(program.ask("end"), "wrong 0");
  EXPECT_EQ(program.wait(), 0) << program.errors();
}

// --- the only node dies ---

class RunBackupLoss : public RunBackup, public testing::WithParamInterface<Over> {
 protected:
  std::string start_node_process() {
    node_.emplace(start_node({"--listen", own_listen(), "--socket", folder_.path("node.sock"), "--lease", "500ms"},
                             folder_.path("."), "256M"));
    return GetParam() == Over::shm ? node_->shm->text() : node_->tcp->text();
  }

  std::optional<NodeProcess> node_;
};
INSTANTIATE_TEST_SUITE_P(Over, RunBackupLoss, testing::Values(Over::shm, Over::tcp), testing::PrintToStringParamName());

TEST_P(RunBackupLoss, the_program_goes_on_from_the_disk) {
  auto program = start(start_node_process(), "40");
  ASSERT_EQ(program.read_line(), "filled") << program.errors();
  EXPECT_EQ(program.ask("look"), "wrong 0") << program.errors();  // what is here now can leave without being sent
  ASSERT_TRUE(caught_up(program));
  node_->process.kill();
  // The memory of a node on this machine is there, and is written to, until its end is seen.
  ASSERT_TRUE(GetParam() == Over::tcp || says(program, " is lost (")) << program.errors();
  EXPECT_EQ(program.ask("look"), "wrong 0") << program.errors();
  EXPECT_TRUE(says(program, " is lost (")) << program.errors();
  EXPECT_EQ(program.ask("end"), "wrong 0") << program.errors();
  EXPECT_EQ(program.wait(), 0) << program.errors();
}

// What the disk has no room for is behind for ever.
TEST_P(RunBackupLoss, a_page_that_is_not_on_the_disk_stops_the_program) {
  const std::string url = start_node_process();
  auto program = start(url, "40", {"--backup-size", "4M"});
  ASSERT_EQ(program.read_line(), "filled") << program.errors();
  node_->process.kill();
  EXPECT_TRUE(says(program, " is lost (")) << program.errors();
  (void)program.write_line("end");
  EXPECT_EQ(program.wait(), 125) << program.errors();
  EXPECT_TRUE(says(program, "memory node " + url + " is lost, and with it the only copy of ")) << program.errors();
  EXPECT_EQ(program.read_line(), std::nullopt) << "nothing that it made of wrong bytes";
}

TEST_F(RunBackup, wrong_bytes_on_the_disk_stop_the_program) {
  const TestNode node;
  auto program = start(node.url(Over::shm).text(), "44", {"--checksums", "off"});
  ASSERT_EQ(program.read_line(), "filled") << program.errors();
  const Fd file = file_of_keeper(program, disk_);
  ASSERT_TRUE(file);
  ASSERT_TRUE(caught_up(program));
  const AlignedBytes zeros(1 << 20);
  std::fill_n(zeros.data(), 1 << 20, std::byte{0});
  // All of it: what is first there may be copies of pages that the node has, too.
  struct stat found {};
  ASSERT_EQ(::fstat(file.get(), &found), 0);
  for (off_t at = 0; at < found.st_size; at += 1 << 20) ASSERT_GE(::pwrite(file.get(), zeros.data(), 1 << 20, at), 0);
  (void)program.write_line("end");
  EXPECT_EQ(program.wait(), 125) << program.errors();
  EXPECT_TRUE(says(program, "a page that came back from the disk of " + disk_)) << program.errors();
  EXPECT_EQ(program.read_line(), std::nullopt) << "nothing that it made of wrong bytes";
}

TEST_F(RunBackup, killed_it_leaves_nothing_behind) {
  const TestNode node;
  auto program = start(node.url(Over::shm).text(), "44");
  ASSERT_EQ(program.read_line(), "filled") << program.errors();
  const std::string variable = run_variable(program.pid());
  program.kill();
  EXPECT_TRUE(nothing_left_soon(variable));
  EXPECT_TRUE(std::filesystem::is_empty(disk_));
}

TEST_F(RunBackup, a_folder_that_cannot_be_used) {
  const TestNode node;
  const Outcome outcome =
      run_comex({"run", "--pool", node.url(Over::shm).text(), "--backup", folder_.path("nowhere"), "--", "/bin/true"},
                folder_.path("."));
  EXPECT_EQ(outcome.code, 2);
  ASSERT_EQ(outcome.complaints().size(), 1U) << outcome.errors;
  EXPECT_NE(outcome.errors.find("--backup " + folder_.path("nowhere") + ": No such file or directory"),
            std::string::npos)
      << outcome.errors;
}

}  // namespace
}  // namespace comex::test

#endif
