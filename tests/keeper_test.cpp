// A keeper, its processes and a memory node: who gets which frames, and what happens when one of them goes.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "support/kept.h"
#include "support/pages.h"

namespace comex::test {
namespace {

class Keeper : public testing::TestWithParam<Over> {};
INSTANTIATE_TEST_SUITE_P(Over, Keeper, testing::ValuesIn(kept_media()),
                         [](const auto& over) { return over_name(over.param); });

TEST_P(Keeper, pages_written_are_read_back) {
  Kept kept(GetParam());
  const auto outpost = kept.outpost();
  const auto runs = take_exactly(*outpost, 600);
  ASSERT_FALSE(runs.empty());
  EXPECT_EQ(write_seed(*outpost, runs, 1), Errc::ok);
  EXPECT_TRUE(has_seed(*outpost, runs, 1));
}

TEST_P(Keeper, runs_are_long) {
  Kept kept(GetParam());
  const auto outpost = kept.outpost();
  ASSERT_EQ(outpost->wait_for_frames(256, Deadline(kPatience)), Errc::ok);
  const auto run = outpost->take(64);
  ASSERT_TRUE(run);
  EXPECT_EQ(run->count, 64U);
}

TEST_P(Keeper, what_was_given_back_can_be_had_again) {
  Kept kept(GetParam());
  const auto outpost = kept.outpost();
  for (std::uint64_t round = 0; round < 20; ++round) {
    const auto runs = take_exactly(*outpost, 2000);  // of 4096 in all
    ASSERT_FALSE(runs.empty()) << "round " << round;
    ASSERT_EQ(write_seed(*outpost, runs, round), Errc::ok);
    ASSERT_TRUE(has_seed(*outpost, runs, round));
    for (const comex::Run& run : runs) outpost->give_back(run);
    outpost->tend();
  }
}

TEST_P(Keeper, two_processes_never_have_the_same_frame) {
  Kept kept(GetParam());
  const auto one = kept.outpost();
  const auto two = kept.outpost();
  std::set<std::uint32_t> seen;
  std::uint32_t frames = 0;
  const Deadline deadline(kPatience);
  while (frames < 3000 && !deadline.passed()) {
    for (Outpost* const outpost : {one.get(), two.get()}) {
      const auto run = outpost->take(17);
      if (!run) {
        (void)outpost->wait_for_frames(1, Deadline(Millis(20)));
        continue;
      }
      for (std::uint32_t i = 0; i < run->count; ++i) EXPECT_TRUE(seen.insert(run->at(i).frame.value).second);
      frames += run->count;
    }
  }
  EXPECT_GE(frames, 3000U);
}

TEST_P(Keeper, a_killed_process_leaves_nothing_behind) {
  Worker worker([](const Worker::Line& line, Outpost& outpost) {
    const auto runs = take_exactly(outpost, 1000);
    line.say(runs.empty() ? 1 : static_cast<std::uint64_t>(write_seed(outpost, runs, 5)));
    for (;;) (void)write_seed(outpost, runs, 6);  // is killed in the middle of it
    return 0;
  });
  Kept kept(GetParam());
  worker.go(kept);
  ASSERT_EQ(worker.line().hear(), 0U);
  EXPECT_TRUE(wait_until([&] { return kept.keeper().status().frames >= 1000; }));
  worker.kill();
  EXPECT_TRUE(kept.processes_soon(0));
  EXPECT_TRUE(kept.frames_held_soon(0));
  // All of it can be used by others, and stays theirs.
  const auto outpost = kept.outpost();
  const auto runs = take_exactly(*outpost, 3000);
  ASSERT_FALSE(runs.empty());
  EXPECT_EQ(write_seed(*outpost, runs, 7), Errc::ok);
  EXPECT_TRUE(has_seed(*outpost, runs, 7));
}

TEST_P(Keeper, a_process_keeps_its_frames_when_its_socket_is_closed) {
  // The program closes all descriptors, as daemons do, and goes on writing to its memory.
  Worker worker([](const Worker::Line& line, Outpost& outpost) {
    const auto runs = take_exactly(outpost, 500);
    ::close(outpost.socket());
    line.say(0);
    (void)line.hear();
    return 0;
  });
  Kept kept(GetParam());
  worker.go(kept);
  ASSERT_EQ(worker.line().hear(), 0U);
  ASSERT_TRUE(wait_until([&] { return kept.keeper().status().leaving == 1; }));
  std::this_thread::sleep_for(Millis(100));  // whatever would free them by mistake has its chance
  EXPECT_GE(kept.keeper().status().frames, 500U) << "its threads may still write to them";
  worker.line().say(0);
  EXPECT_EQ(worker.wait(), 0);
  EXPECT_TRUE(kept.processes_soon(0));
  EXPECT_TRUE(kept.frames_held_soon(0));
}

TEST_P(Keeper, exec_leaves_nothing_behind) {
  Worker worker([](const Worker::Line& line, Outpost& outpost) {
    line.say(take_exactly(outpost, 500).empty() ? 1 : 0);
    (void)line.hear();
    ::execl("/bin/sleep", "sleep", "1000", nullptr);
    return 1;
  });
  Kept kept(GetParam());
  worker.go(kept);
  ASSERT_EQ(worker.line().hear(), 0U);
  EXPECT_TRUE(wait_until([&] { return kept.keeper().status().frames >= 500; }));
  worker.line().say(0);
  EXPECT_TRUE(kept.processes_soon(0));
  EXPECT_TRUE(kept.frames_held_soon(0));
}

// The worker forks; parent and child look at the same bytes, and the frames are free when both are gone.
TEST_P(Keeper, an_heir_holds_what_its_parent_held) {
  Worker worker([](const Worker::Line& line, Outpost& outpost) {
    const auto runs = take_exactly(outpost, 700);
    if (runs.empty() || write_seed(outpost, runs, 3) != Errc::ok) return 1;
    if (outpost.before_fork(Deadline(kPatience)) != Errc::ok) return 2;
    const pid_t child = ::fork();
    if (child == 0) {
      if (outpost.after_fork_in_child() != Errc::ok) ::_exit(3);
      if (outpost.at_hand() != 0) ::_exit(4);
      (void)outpost.wait_until_readable(runs[0].at(0), Deadline(kPatience));
      if (!has_seed(outpost, runs, 3)) ::_exit(5);
      // What the child writes goes to frames of its own.
      const auto more = take_exactly(outpost, 300);
      if (more.empty() || write_seed(outpost, more, 4) != Errc::ok || !has_seed(outpost, more, 4)) ::_exit(6);
      line.say(static_cast<std::uint64_t>(::getpid()));
      for (;;) ::pause();
    }
    outpost.after_fork_in_parent();
    const bool intact = has_seed(outpost, runs, 3);
    for (const comex::Run& run : runs) outpost.give_back(run);
    outpost.tend();
    line.say(intact ? 0 : 1);
    if (line.hear() == 1) ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    line.say(static_cast<std::uint64_t>(status));
    (void)line.hear();
    return 0;
  });
  Kept kept(GetParam());
  worker.go(kept);
  std::set<std::uint64_t> said{worker.line().hear(), worker.line().hear()};
  EXPECT_TRUE(said.contains(0)) << "the parent's pages";
  EXPECT_TRUE(*said.rbegin() > 1) << "the child's pages";
  EXPECT_TRUE(kept.processes_soon(2));
  // The parent has given all of it back; the child still holds it.
  EXPECT_TRUE(wait_until([&] { return kept.keeper().status().frames >= 1000; }));
  worker.line().say(1);
  EXPECT_EQ(worker.line().hear(), static_cast<std::uint64_t>(SIGKILL));
  EXPECT_TRUE(kept.processes_soon(1));
  worker.kill();
  EXPECT_TRUE(kept.frames_held_soon(0));
}

TEST_P(Keeper, an_heir_that_nobody_becomes_leaves_nothing_behind) {
  Worker worker([](const Worker::Line& line, Outpost& outpost) {
    const auto runs = take_exactly(outpost, 100);
    const bool ok = outpost.before_fork(Deadline(kPatience)) == Errc::ok;
    if (ok) outpost.after_fork_in_parent();  // the fork failed
    for (const comex::Run& run : runs) outpost.give_back(run);
    outpost.tend();
    line.say(ok ? 0 : 1);
    (void)line.hear();
    return 0;
  });
  Kept kept(GetParam());
  worker.go(kept);
  ASSERT_EQ(worker.line().hear(), 0U);
  EXPECT_TRUE(kept.processes_soon(1));
  worker.kill();
  EXPECT_TRUE(kept.frames_held_soon(0));
}

TEST_P(Keeper, refused_and_granted_when_there_is_memory_again) {
  Kept kept(GetParam(), 4 << 20);  // 1024 frames
  auto greedy = kept.outpost();
  ASSERT_FALSE(take_exactly(*greedy, 1000).empty());
  while (greedy->wait_for_frames(1, Deadline(Millis(50))) == Errc::ok) (void)greedy->take(64);
  const auto poor = kept.outpost();
  Errc why = Errc::ok;
  EXPECT_TRUE(wait_until([&] {
    why = poor->wait_for_frames(64, Deadline(Millis(50)));
    return why == Errc::no_memory;
  })) << to_string(why);
  greedy.reset();
  EXPECT_EQ(poor->wait_for_frames(64, Deadline(kPatience)), Errc::ok);
  const auto runs = take_exactly(*poor, 64);
  EXPECT_EQ(write_seed(*poor, runs, 2), Errc::ok);
  EXPECT_TRUE(has_seed(*poor, runs, 2));
}

TEST_P(Keeper, a_node_that_restarts_is_lost_and_its_next_session_can_be_used) {
  Kept kept(GetParam());
  auto config = outpost_config();
  std::uint64_t lost = 0;
  config.context = &lost;
  config.on_lost = [](void* context, NodeId, std::string_view name) {
    EXPECT_FALSE(name.empty());
    ++*static_cast<std::uint64_t*>(context);
  };
  const auto outpost = kept.outpost(config);
  const auto runs = take_exactly(*outpost, 100);
  ASSERT_EQ(write_seed(*outpost, runs, 1), Errc::ok);
  kept.stop_node();
  EXPECT_NE(write_seed(*outpost, runs, 1), Errc::ok);
  kept.start_node();
  EXPECT_EQ(outpost->wait_until_readable(runs[0].at(0), Deadline(kPatience)), Errc::fenced);
  EXPECT_EQ(write_seed(*outpost, runs, 1), Errc::fenced);
  EXPECT_TRUE(wait_until([&] { return outpost->tend(), lost == 1; }));
  const auto again = take_exactly(*outpost, 100);
  ASSERT_FALSE(again.empty());
  EXPECT_NE(outpost->place_of(again[0].at(0)).node, outpost->place_of(runs[0].at(0)).node);
  EXPECT_EQ(write_seed(*outpost, again, 2), Errc::ok);
  EXPECT_TRUE(has_seed(*outpost, again, 2));
  for (const comex::Run& run : runs) outpost->give_back(run);  // of the lost node: ignored
  outpost->tend();
  EXPECT_TRUE(has_seed(*outpost, again, 2));
  EXPECT_FALSE(outpost->keeper_gone());
}

// As in a program: threads that move pages, one that tends, and now and then the connections break.
TEST_P(Keeper, threads_of_one_process) {
  Kept kept(GetParam());
  const auto outpost = kept.outpost();
  std::atomic<bool> over{false};
  std::thread tender([&] {
    while (!over) {
      outpost->tend();
      std::this_thread::sleep_for(Millis(1));
    }
  });
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      // A transfer that failed is tried again once the node is back.
      const auto insist = [&](Location home, auto&& move) {
        for (const Deadline deadline(kPatience); !deadline.passed();) {
          if (move()) return true;
          if (outpost->wait_until_readable(home, deadline) != Errc::ok) return false;
        }
        return false;
      };
      for (std::uint64_t round = 0; round < 150; ++round) {
        const auto runs = take_exactly(*outpost, 20);
        const std::uint64_t seed = round * 3 + t;
        if (runs.empty() || !insist(runs[0].at(0), [&] { return write_seed(*outpost, runs, seed) == Errc::ok; }) ||
            !insist(runs[0].at(0), [&] { return has_seed(*outpost, runs, seed); })) {
          ++wrong;
        }
        for (const comex::Run& run : runs) outpost->give_back(run);
      }
    });
  }
  if (GetParam() != Over::shm) {
    for (int i = 0; i < 4; ++i) {
      std::this_thread::sleep_for(Millis(30));
      const auto node = kept.pool().status()[0].node;
      std::uint64_t link = 0;
      if (const auto pass = kept.pool().enter(node)) link = pass->number();
      kept.pool().renew_link(node, link);
    }
  }
  for (auto& thread : threads) thread.join();
  over = true;
  tender.join();
  EXPECT_EQ(wrong, 0);
}

TEST_P(Keeper, a_session_that_resumes_brings_new_lanes) {
  if (GetParam() == Over::shm) GTEST_SKIP() << "it has none";
  Kept kept(GetParam());
  const auto outpost = kept.outpost();
  const auto runs = take_exactly(*outpost, 100);
  ASSERT_EQ(write_seed(*outpost, runs, 1), Errc::ok);
  const NodeId node = outpost->place_of(runs[0].at(0)).node;
  const auto link = kept.pool().enter(node)->number();
  kept.pool().renew_link(node, link);
  ASSERT_TRUE(wait_until([&] {
    const auto now = kept.pool().enter(node);
    return now && now->number() != link;
  }));
  EXPECT_TRUE(wait_until([&] {
    return outpost->wait_until_readable(runs[0].at(0), Deadline(kPatience)) == Errc::ok && has_seed(*outpost, runs, 1);
  }));
  EXPECT_EQ(write_seed(*outpost, runs, 2), Errc::ok);
  EXPECT_TRUE(has_seed(*outpost, runs, 2));
}

TEST_P(Keeper, a_keeper_that_goes_takes_everything_with_it) {
  Kept kept(GetParam());
  const auto outpost = kept.outpost();
  const auto runs = take_exactly(*outpost, 10);
  ASSERT_EQ(write_seed(*outpost, runs, 1), Errc::ok);
  kept.stop_keeper();
  outpost->tend();
  EXPECT_TRUE(outpost->keeper_gone());
  EXPECT_EQ(write_seed(*outpost, runs, 1), Errc::fenced);
  EXPECT_EQ(outpost->wait_until_readable(runs[0].at(0), Deadline(Millis(10))), Errc::fenced);
  EXPECT_EQ(outpost->wait_for_frames(5000, Deadline(Millis(10))), Errc::fenced);
  EXPECT_FALSE(outpost->farewell().empty());
}

}  // namespace
}  // namespace comex::test
