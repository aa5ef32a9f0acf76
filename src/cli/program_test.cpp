#include "cli/program.h"

#include <elf.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "cli/report.h"
#include "cli/test_folder.h"

namespace comex {
namespace {

class ProgramTest : public ::testing::Test {
 protected:
  // A program as its first bytes have it. No loader: statically linked.
  [[nodiscard]] std::string elf(unsigned char width, std::uint16_t machine, const std::string& loader) const {
    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = width;
    header.e_machine = machine;
    header.e_phoff = sizeof header;
    header.e_phnum = 1;
    Elf64_Phdr part{};
    part.p_type = loader.empty() ? PT_LOAD : PT_INTERP;
    part.p_offset = sizeof header + sizeof part;
    part.p_filesz = loader.size() + 1;
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
    bytes.append(reinterpret_cast<const char*>(&part), sizeof part);
    return folder_.file("program", bytes + loader + '\0', 0755);
  }
  static void expect(const std::string& path, int code, const std::string& about, const Privileges& privileges = {}) {
    const auto refusal = examine_program(path, privileges);
    ASSERT_TRUE(refusal) << path;
    EXPECT_EQ(refusal->exit_code, code) << refusal->why;
    EXPECT_NE(refusal->why.find(about), std::string::npos) << refusal->why;
  }

  TestFolder folder_;
};

TEST_F(ProgramTest, examine_whatCanBeRun) {
  EXPECT_FALSE(examine_program("/bin/sh"));
  EXPECT_FALSE(examine_program(folder_.file("script", "#! /bin/sh -e\necho\n", 0755)));
  const std::string inner = folder_.file("inner", "#!/bin/sh", 0755);
  EXPECT_FALSE(examine_program(folder_.file("outer", "#!" + inner + "\n", 0755)));
}

TEST_F(ProgramTest, examine_whatNobodyCanRun) {
  expect(folder_.path("none"), kExitNotFound, "not found");
  expect(folder_.path(""), kExitNotRunnable, "folder");
  expect(folder_.file("text", "echo\n", 0755), kExitNotRunnable, "#!");
  expect(folder_.file("empty", "", 0755), kExitNotRunnable, "#!");
  expect(folder_.file("script", "#!/does/not/exist\n", 0755), kExitNotFound, "/does/not/exist");
  expect(folder_.file("round", "#!" + folder_.path("round") + "\n", 0755), kExitNotRunnable, "interpreters");
  expect(elf(ELFCLASS64, EM_X86_64, "/does/not/exist"), kExitNotFound, "/does/not/exist");
}

TEST_F(ProgramTest, examine_whatTheRuntimeCannotBeLoadedInto) {
  expect(elf(ELFCLASS64, EM_X86_64, ""), kExitBadUsage, "statically linked");
  expect(elf(ELFCLASS64, EM_AARCH64, "/bin/sh"), kExitBadUsage, "another processor");
  expect(elf(ELFCLASS32, EM_386, "/bin/sh"), kExitBadUsage, "64-bit");
  EXPECT_FALSE(examine_program(elf(ELFCLASS64, EM_X86_64, "/bin/sh")));
  const std::string script = folder_.file("script", "#!" + folder_.path("program") + "\n", 0755);
  EXPECT_FALSE(examine_program(script));
  (void)elf(ELFCLASS64, EM_X86_64, "");
  expect(script, kExitBadUsage, "statically linked");
}

TEST_F(ProgramTest, examine_moreRightsThanItsCaller) {
  const std::string program = folder_.file("mine", "", 0755);
  std::filesystem::copy_file("/bin/sh", program, std::filesystem::copy_options::overwrite_existing);
  struct stat found {};
  ASSERT_EQ(::stat(program.c_str(), &found), 0);
  const Privileges owner{found.st_uid, found.st_gid, false};
  const Privileges other{found.st_uid + 1, found.st_gid + 1, false};
  const Privileges never{found.st_uid + 1, found.st_gid + 1, true};
  ASSERT_EQ(::chmod(program.c_str(), 04755), 0);
  EXPECT_FALSE(examine_program(program, owner));
  EXPECT_FALSE(examine_program(program, never));
  expect(program, kExitBadUsage, "setuid", other);
  ASSERT_EQ(::chmod(program.c_str(), 02755), 0);
  EXPECT_FALSE(examine_program(program, owner));
  expect(program, kExitBadUsage, "setgid", other);
}

}  // namespace
}  // namespace comex
