#include "bench/prefetch/redis_program.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "base/clock.h"
#include "bench/child.h"
#include "bench/prefetch/redis_client.h"

namespace comex::bench {

namespace {

constexpr std::uint64_t kBytesPerKey = kRedisValueBytes + 120;  // with the key and what redis keeps of both
constexpr Millis kClientEndsWithin{5000};

class RedisProgram : public PagedProgram {
 public:
  RedisProgram(std::uint64_t bytes, const std::string& folder)
      : keys_(bytes / kBytesPerKey),
        folder_(folder),
        socket_(folder + "/redis.sock"),
        answer_(folder + "/redis.asked") {}

  [[nodiscard]] std::string_view name() const override { return "redis-zipf"; }
  Expected<Outcome> run(PagingSystem& system) override {
    ::unlink(socket_.c_str());
    ::unlink(answer_.c_str());
    Expected<Child> client = Child::fork([this] { return be_client(); });
    if (!client) return client.error();
    const Expected<ProgramResult> result =
        system.run({"redis-server", "--port", "0", "--unixsocket", socket_, "--save", "", "--appendonly", "no",
                    "--daemonize", "no", "--dir", folder_, "--logfile", folder_ + "/redis.log"});
    if (!result) return result.error();
    for (const Deadline deadline(kClientEndsWithin); client->running() && !deadline.passed();) {
      std::this_thread::sleep_for(Millis(1));
    }
    return read_answer(result->peak_bytes);
  }

 private:
  // The server ends when the client is done, so there is no other way for its words than a file.
  int be_client() const {
    const Expected<RedisAsked> asked = ask_redis(socket_, keys_);
    std::ofstream(answer_) << (asked ? fmt::format("right {} {:016x}", asked->seconds, asked->result)
                                     : "wrong " + asked.error().message);
    return asked ? 0 : 1;
  }
  [[nodiscard]] Expected<Outcome> read_answer(std::uint64_t peak_bytes) const {
    std::ifstream file(answer_);
    std::string word;
    Outcome outcome;
    if (file >> word && word == "right" && file >> outcome.seconds >> outcome.result) {
      outcome.peak_bytes = peak_bytes;
      return outcome;
    }
    std::string why;
    std::getline(file >> std::ws, why);
    return Error{Errc::io, why.empty() ? "redis-server ended by itself" : why};
  }

  std::uint64_t keys_;
  const std::string& folder_;
  std::string socket_;
  std::string answer_;
};

}  // namespace

std::unique_ptr<PagedProgram> make_redis_program(std::uint64_t bytes, const std::string& folder) {
  return std::make_unique<RedisProgram>(bytes, folder);
}

}  // namespace comex::bench
