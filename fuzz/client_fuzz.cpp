// All that a hostile node can send to a client: replies to control calls (Channel, and Link's typed calls on it) and
// replies on a lane with transfers outstanding (TcpLane).
//
// What must hold whatever arrives: a reply is taken for the reply to the call that it answers and to no other; no byte
// lands outside the memory of the read that it belongs to; each transfer completes once; and after it has, the lane
// touches neither it nor its memory. To see that, transfers and their memory are freed the moment they are done.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

#include "fabric/channel.h"
#include "fabric/link.h"
#include "fabric/tcp_lane.h"
#include "fuzz/memory_stream.h"
#include "fuzz/require.h"
#include "wire/message.h"

namespace {

using namespace comex;
using fuzz::MemoryLine;
using fuzz::MemoryStream;
using fuzz::require;
using wire::Header;
using wire::Type;

// True once in about `n` times.
bool rarely(FuzzedDataProvider& input, int n) {
  return input.ConsumeIntegralInRange<int>(1, n) == n;
}

std::vector<std::uint16_t> pieces(FuzzedDataProvider& input) {
  std::vector<std::uint16_t> sizes(input.ConsumeIntegralInRange<std::size_t>(0, 12));
  for (auto& size : sizes) {
    const auto byte = input.ConsumeIntegral<std::uint8_t>();
    // Few bytes, about a header, or about a page.
    size = static_cast<std::uint16_t>(byte < 200 ? byte % 40 : (byte - 199) * 128);
  }
  return sizes;
}

Header reply_header(Type type, std::uint32_t tag) {
  Header header;
  header.type = static_cast<std::uint16_t>(static_cast<unsigned>(type) | wire::kReplyBit);
  header.tag = tag;
  return header;
}

// One field is not what it should be, or is by chance.
void spoil(FuzzedDataProvider& input, Header& header) {
  switch (input.ConsumeIntegralInRange<int>(0, 5)) {
    case 0: header.body = input.PickValueInArray<std::uint32_t>({0, 1, 8, wire::kMaxBody, wire::kMaxBody + 1}); break;
    case 1: header.type = input.ConsumeIntegral<std::uint16_t>(); break;
    case 2: header.type ^= wire::kReplyBit; break;
    case 3: header.status = input.ConsumeIntegral<std::uint16_t>(); break;
    case 4: header.tag += input.PickValueInArray<std::uint32_t>({1, UINT32_MAX, 1U << 31}); break;
    default: header.payload = input.PickValueInArray<std::uint32_t>({0, 1, 4096, 8192, 1U << 20, 1U << 31}); break;
  }
}

wire::Bytes joined(const Header& header, wire::ByteView rest) {
  const auto raw = std::as_bytes(std::span(&header, 1));
  wire::Bytes bytes(raw.begin(), raw.end());
  bytes.insert(bytes.end(), rest.begin(), rest.end());
  return bytes;
}

// --- control calls ---

// What TcpLink does with its channel, without sockets.
class ControlLink final : public Link {
 public:
  explicit ControlLink(std::unique_ptr<Stream> stream) : channel_(std::move(stream), "memory") {}
  void submit(Transfer& transfer) noexcept override { transfer.finish(Errc::unsupported); }
  void progress() noexcept override {}
  Errc wait(Transfer& transfer) noexcept override { return transfer.result(); }
  [[nodiscard]] Errc broken() const noexcept override { return Errc::ok; }
  void sever(Errc) noexcept override { channel_.shut(); }
  Expected<void> reach(std::span<const Extent>) override { return {}; }
  void forget(std::span<const Extent>) noexcept override {}
  Expected<std::vector<std::byte>> call(Type type, std::span<const std::byte> body) override {
    auto reply = channel_.call(type, body, Deadline(patience_));
    last_ = reply ? Errc::ok : reply.error().code;
    if (!reply) return std::move(reply).error();
    last_body_ = reply->body;
    return std::move(reply->body);
  }
  void be_patient(Millis patience) { patience_ = patience; }
  [[nodiscard]] Errc last() const { return last_; }
  [[nodiscard]] const wire::Bytes& last_body() const { return last_body_; }

 private:
  Channel channel_;
  Millis patience_{0};
  Errc last_ = Errc::ok;
  wire::Bytes last_body_;
};

class Calls {
 public:
  explicit Calls(FuzzedDataProvider& input) : input_(input), link_(std::make_unique<MemoryStream>(line_)) {}
  void run();

 private:
  wire::Bytes good_body(Type type);
  void answer(Type type);
  void make(Type type);
  void check_sent(Type type);
  static std::size_t request_bytes(Type type);
  Errc expect(Type type, wire::Bytes& body);

  FuzzedDataProvider& input_;
  std::shared_ptr<MemoryLine> line_ = std::make_shared<MemoryLine>();
  ControlLink link_;
  wire::Bytes coming_;                          // what the node has sent and the channel has not read yet
  std::size_t allowed_ = MemoryLine::kNoLimit;  // what the node takes in of the next request
  bool ended_ = false;
  bool broken_ = false;
  std::uint32_t next_tag_ = 1;
};

void Calls::run() {
  constexpr std::array kCalls{Type::grant, Type::give_back, Type::share, Type::beat, Type::status, Type::bye};
  for (int i = 0; i < 20 && input_.remaining_bytes() > 0; ++i) {
    const Type type = input_.PickValueInArray(kCalls);
    if (rarely(input_, 3)) line_->pace_reads(pieces(input_));
    if (rarely(input_, 3)) line_->pace_writes(pieces(input_));
    answer(type);
    if (rarely(input_, 10)) {
      ended_ = true;
      line_->end();
    }
    if (rarely(input_, 10)) line_->babble();
    if (rarely(input_, 10)) allowed_ = input_.ConsumeIntegralInRange<std::size_t>(0, 40);
    line_->allow_writes(allowed_);
    wire::Bytes body;
    const Errc expected = expect(type, body);
    // Nothing but a call that must time out ever has to wait.
    link_.be_patient(broken_ && expected == Errc::timeout ? Millis(0) : std::chrono::hours(1));
    make(type);
    require(link_.last() == expected, "a reply is taken for what it says, or breaks the channel");
    if (expected == Errc::ok) require(link_.last_body() == body, "a reply's body is handed on as it came");
    check_sent(type);
    broken_ = broken_ || type == Type::bye;
  }
}

// Mostly the reply to the call that comes next.
void Calls::answer(Type type) {
  wire::Bytes bytes;
  if (rarely(input_, 8)) {
    bytes = input_.ConsumeBytes<std::byte>(input_.ConsumeIntegral<std::uint8_t>());
  } else {
    wire::Bytes body = good_body(type);
    Header header = reply_header(type, next_tag_);
    if (rarely(input_, 4)) header.status = input_.ConsumeIntegralInRange<std::uint16_t>(0, 12);
    if (rarely(input_, 4)) body = input_.ConsumeBytes<std::byte>(input_.ConsumeIntegral<std::uint8_t>());
    header.body = static_cast<std::uint32_t>(body.size());
    if (rarely(input_, 8)) spoil(input_, header);
    bytes = joined(header, body);
    if (rarely(input_, 8)) bytes.resize(input_.ConsumeIntegralInRange<std::size_t>(0, bytes.size()));
  }
  line_->send(bytes);
  coming_.insert(coming_.end(), bytes.begin(), bytes.end());
}

wire::Bytes Calls::good_body(Type type) {
  const auto number = [&] { return input_.ConsumeIntegral<std::uint32_t>(); };
  switch (type) {
    case Type::grant: {
      wire::GrantReply reply;
      reply.extents.resize(input_.ConsumeIntegralInRange<std::size_t>(0, 4));
      for (auto& extent : reply.extents) extent = {FrameNo{number()}, number()};
      return wire::encode(reply);
    }
    case Type::share: return wire::encode(wire::ShareReply{ClientId{number()}, {}});
    case Type::beat: return wire::encode(wire::NodeLoad{number(), number(), number(), number()});
    case Type::status: {
      wire::StatusReply reply;
      reply.client_count = number();
      reply.clients.resize(input_.ConsumeIntegralInRange<std::size_t>(0, 3));
      for (auto& client : reply.clients) client.name = input_.ConsumeRandomLengthString(80);
      return wire::encode(reply);
    }
    default: return {};
  }
}

// What the call must come to.
Errc Calls::expect(Type type, wire::Bytes& body) {
  if (broken_) return Errc::disconnected;
  const std::uint32_t tag = next_tag_++;
  broken_ = true;  // unless the request can be sent and a whole reply is there
  if (allowed_ < request_bytes(type)) return Errc::timeout;
  const Errc cut_off = ended_ ? Errc::disconnected : Errc::timeout;
  if (coming_.size() < Header::kBytes) return cut_off;
  const auto header = wire::decode_header(std::span(coming_).first<Header::kBytes>());
  if (!header || header->type != reply_header(type, tag).type || header->tag != tag || header->payload != 0) {
    return Errc::version;
  }
  if (coming_.size() < Header::kBytes + header->body) return cut_off;
  broken_ = false;
  const auto end = coming_.begin() + static_cast<std::ptrdiff_t>(Header::kBytes + header->body);
  body.assign(coming_.begin() + Header::kBytes, end);
  coming_.erase(coming_.begin(), end);
  return static_cast<Errc>(header->status);
}

// Of the calls below.
std::size_t Calls::request_bytes(Type type) {
  if (type == Type::grant) return Header::kBytes + wire::encode(wire::Grant{}).size();
  return Header::kBytes + (type == Type::give_back ? sizeof(std::uint32_t) + sizeof(Extent) : 0);
}

// The typed call, and what it promises of its reply.
void Calls::make(Type type) {
  switch (type) {
    case Type::grant: {
      const auto reply = link_.grant(128, 7);
      if (!reply) break;
      require(reply->extents.size() <= wire::kMaxExtents, "a grant has a limit");
      for (const auto& extent : reply->extents) require(extent.count > 0, "no granted extent is empty");
      break;
    }
    case Type::give_back: {
      const std::array extents{Extent{FrameNo{5}, 3}};
      require(link_.give_back(extents).has_value() == (link_.last() == Errc::ok), "a return is done or refused");
      break;
    }
    case Type::share: (void)link_.share(); break;
    case Type::beat: (void)link_.beat(); break;
    case Type::status: (void)link_.status(); break;
    default: link_.bye(); break;
  }
}

void Calls::check_sent(Type type) {
  const auto sent = line_->take();
  if (broken_) return;
  require(sent.size() >= Header::kBytes, "a request is sent whole");
  const auto header = wire::decode_header(std::span(sent).first<Header::kBytes>());
  require(header && header->type == static_cast<std::uint16_t>(type), "a request is of its call's type");
  require(header->tag == next_tag_ - 1, "requests are numbered");
  require(sent.size() == Header::kBytes + header->body, "a request is as long as it says");
}

// --- lanes ---

// A transfer with memory of its own, all of it on the heap: whoever uses it too late, or beyond its end, is caught.
struct Job {
  std::vector<std::unique_ptr<std::byte[]>> memory;
  std::vector<Segment> segments;
  std::unique_ptr<Transfer> transfer;
  std::uint32_t tag = 0;
  std::byte fill{};       // a write's bytes, or those that a proper reply to a read brings
  bool answered = false;  // properly
  Errc status = Errc::ok;
};

class FuzzedLane {
 public:
  explicit FuzzedLane(FuzzedDataProvider& input)
      : input_(input), lane_(std::make_unique<MemoryStream>(line_), broken_, Nanos(0)) {}
  ~FuzzedLane() { sever(Errc::disconnected); }
  FuzzedLane(const FuzzedLane&) = delete;
  FuzzedLane& operator=(const FuzzedLane&) = delete;
  void run();

 private:
  static constexpr std::size_t kMaxJobs = 40;      // more than a batch
  static constexpr std::uint32_t kMaxPages = 120;  // in one input

  void submit();
  void expect_request(const Job& job);
  static bool is_reply_to(const Job& job, const Header& header);
  void answer();
  void progress();
  void wait();
  void sever(Errc why);
  void collect();
  void check_sent();
  void check_done(const Job& job);

  FuzzedDataProvider& input_;
  std::shared_ptr<MemoryLine> line_ = std::make_shared<MemoryLine>();
  std::atomic<Errc> broken_{Errc::ok};
  TcpLane lane_;
  std::vector<std::unique_ptr<Job>> jobs_;  // not completed, in the order they were submitted
  std::uint32_t next_tag_ = 0;
  std::uint32_t pages_left_ = kMaxPages;
  wire::Bytes requests_;     // what is to be sent, as far as it has not been
  wire::Bytes late_;         // the rest of a reply
  std::size_t answers_ = 0;  // of jobs_, so many have been answered, properly or not
  bool calm_ = true;         // the node has done nothing but answer well: the link must not break
  bool insulted_ = false;    // it has sent what is no reply: the link must break
};

void FuzzedLane::run() {
  for (int i = 0; i < 80 && input_.remaining_bytes() > 0; ++i) {
    switch (input_.ConsumeIntegralInRange<int>(0, 11)) {
      case 0:
      case 1:
      case 2: submit(); break;
      case 3:
      case 4:
      case 5: answer(); break;
      case 6:
      case 7: progress(); break;
      case 8: wait(); break;
      case 9: line_->pace_reads(pieces(input_)); break;
      case 10: {
        calm_ = false;
        const auto most = input_.ConsumeIntegral<std::uint8_t>();
        line_->allow_writes(most > 100 ? MemoryLine::kNoLimit : std::size_t{most} * 100);
        break;
      }
      default:
        calm_ = false;
        if (input_.ConsumeBool()) {
          line_->pace_writes(pieces(input_));
        } else if (rarely(input_, 4)) {
          line_->end();
        } else if (rarely(input_, 4)) {
          line_->babble();
        } else if (rarely(input_, 4)) {
          sever(Errc::timeout);
        } else {
          const auto raw = input_.ConsumeBytes<std::byte>(input_.ConsumeIntegral<std::uint8_t>());
          line_->send(raw);
        }
        break;
    }
    collect();
  }
  progress();
  collect();
}

void FuzzedLane::submit() {
  if (jobs_.size() >= kMaxJobs) return;
  auto job = std::make_unique<Job>();
  job->fill = static_cast<std::byte>(1 + next_tag_ % 250);
  const bool writes = input_.ConsumeBool();
  const auto count = rarely(input_, 8) ? input_.ConsumeIntegralInRange<std::size_t>(1, wire::kMaxSegments)
                                       : input_.ConsumeIntegralInRange<std::size_t>(1, 2);
  for (std::size_t i = 0; i < count; ++i) {
    const auto pages = i < 2 ? input_.ConsumeIntegralInRange<std::uint32_t>(1, 3) : 1;
    if (pages > pages_left_) return;
    pages_left_ -= pages;
    job->memory.push_back(std::make_unique<std::byte[]>(pages * kPageSize));
    std::memset(job->memory.back().get(), writes ? std::to_integer<int>(job->fill) : 0, pages * kPageSize);
    job->segments.push_back({FrameNo{static_cast<std::uint32_t>(i * 7)}, pages, job->memory.back().get()});
  }
  job->transfer = std::make_unique<Transfer>(writes ? Direction::write : Direction::read, job->segments);

  // As TcpLink does.
  Transfer& transfer = *job->transfer;
  transfer.begin();
  require(transfer.check() == Errc::ok, "a transfer within the limits is fit");
  transfer.deadline = Clock::now() + std::chrono::hours(1);
  const bool was_broken = broken_.load() != Errc::ok;
  if (!was_broken) {
    job->tag = next_tag_++;
    expect_request(*job);
  }
  jobs_.push_back(std::move(job));
  if (const Errc error = lane_.submit(transfer); error != Errc::ok) sever(error);
  if (was_broken) require(transfer.done(), "a broken link completes transfers at once");
}

void FuzzedLane::expect_request(const Job& job) {
  const bool writes = job.transfer->direction == Direction::write;
  Header header;
  header.type = static_cast<std::uint16_t>(writes ? Type::write : Type::read);
  header.tag = job.tag;
  wire::Bytes rest;
  for (const auto& segment : job.segments) {
    wire::Writer writer;
    const auto extent = writer.put(segment.first.value).put(segment.count).take();
    rest.insert(rest.end(), extent.begin(), extent.end());
  }
  header.body = static_cast<std::uint32_t>(rest.size());
  header.payload = writes ? job.transfer->pages() * kPageSize : 0;
  rest.resize(rest.size() + header.payload, job.fill);
  const auto request = joined(header, rest);
  requests_.insert(requests_.end(), request.begin(), request.end());
}

// Whatever it says: done, with the pages that were asked for, or refused.
bool FuzzedLane::is_reply_to(const Job& job, const Header& header) {
  const bool reads = job.transfer->direction == Direction::read;
  Header expected = reply_header(reads ? Type::read : Type::write, job.tag);
  expected.status = header.status;
  if (reads && header.status == 0) expected.payload = job.transfer->pages() * kPageSize;
  return header == expected;
}

// Mostly a proper reply to the oldest transfer that has none, mostly whole.
void FuzzedLane::answer() {
  if (!late_.empty()) {
    line_->send(late_);
    late_.clear();
    return;
  }
  if (answers_ >= jobs_.size() || broken_.load() != Errc::ok) return;
  Job& job = *jobs_[answers_++];
  const bool reads = job.transfer->direction == Direction::read;
  Header proper = reply_header(reads ? Type::read : Type::write, job.tag);
  if (rarely(input_, 6)) {
    proper.status = static_cast<std::uint16_t>(input_.PickValueInArray({Errc::denied, Errc::fenced}));
  } else if (reads) {
    proper.payload = job.transfer->pages() * kPageSize;
  }
  Header header = proper;
  if (rarely(input_, 10)) spoil(input_, header);
  const wire::Bytes pages(proper.payload, job.fill);
  wire::Bytes bytes = joined(header, pages);
  if (header != proper) {
    insulted_ = insulted_ || (calm_ && !is_reply_to(job, header));
    calm_ = false;
  } else {
    job.answered = true;
    job.status = static_cast<Errc>(proper.status);
  }
  if (rarely(input_, 4)) {
    const auto now = input_.ConsumeIntegralInRange<std::size_t>(0, bytes.size());
    late_.assign(bytes.begin() + static_cast<std::ptrdiff_t>(now), bytes.end());
    bytes.resize(now);
  }
  line_->send(bytes);
}

void FuzzedLane::progress() {
  if (const Errc error = lane_.progress(); error != Errc::ok) sever(error);
  require(!calm_ || broken_.load() == Errc::ok, "a link with an honest node does not break");
  if (!insulted_ || !late_.empty() || line_->unread() > 0) return;
  require(broken_.load() != Errc::ok, "a node that does not keep to the protocol is left");
}

// As TcpLink does, for a transfer whose time is up.
void FuzzedLane::wait() {
  if (jobs_.empty()) return;
  Transfer& transfer = *jobs_[input_.ConsumeIntegralInRange<std::size_t>(0, jobs_.size() - 1)]->transfer;
  transfer.deadline = Clock::now();
  while (!transfer.done()) {
    Errc error = lane_.wait_a_while(transfer);
    if (error == Errc::ok && !transfer.done() && Clock::now() >= transfer.deadline) {
      error = Errc::timeout;
      calm_ = false;
    }
    if (error != Errc::ok) sever(error);
  }
}

void FuzzedLane::sever(Errc why) {
  Errc none = Errc::ok;
  broken_.compare_exchange_strong(none, why);
  lane_.shut();
  lane_.fail_all(broken_.load());
  for (const auto& job : jobs_) require(job->transfer->done(), "a broken link completes everything");
}

void FuzzedLane::collect() {
  check_sent();
  const Errc broken = broken_.load();
  for (const auto& job : jobs_) {
    if (job->transfer->done()) check_done(*job);
    require(broken == Errc::ok || job->transfer->done(), "a broken link completes everything");
  }
  const auto live = [](const auto& job) { return !job->transfer->done(); };
  const auto first_live = std::find_if(jobs_.begin(), jobs_.end(), live);
  require(std::all_of(first_live, jobs_.end(), live), "transfers complete in the order they were submitted");
  const auto done = static_cast<std::size_t>(first_live - jobs_.begin());
  answers_ -= std::min(answers_, done);
  jobs_.erase(jobs_.begin(), first_live);
  require(lane_.outstanding() == jobs_.size(), "each transfer completes once");
}

void FuzzedLane::check_done(const Job& job) {
  const Errc result = job.transfer->result();
  if (calm_) require(job.answered && result == job.status, "a transfer comes to what its reply says");
  if (result != Errc::ok) return;
  const bool reads = job.transfer->direction == Direction::read;
  for (const auto& segment : job.segments) {
    const std::size_t bytes = segment.count * kPageSize;
    const bool even = std::memcmp(segment.local, segment.local + 1, bytes - 1) == 0;
    if (calm_ || !reads) require(segment.local[0] == job.fill && even, "pages are moved as they are");
  }
}

void FuzzedLane::check_sent() {
  const auto sent = line_->take();
  require(sent.size() <= requests_.size() && std::equal(sent.begin(), sent.end(), requests_.begin()),
          "what is sent is what was submitted");
  requests_.erase(requests_.begin(), requests_.begin() + static_cast<std::ptrdiff_t>(sent.size()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider input(data, size);
  if (input.ConsumeIntegralInRange<int>(0, 2) == 0) {
    Calls(input).run();
  } else {
    FuzzedLane(input).run();
  }
  return 0;
}
