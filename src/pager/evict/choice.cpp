#include "pager/evict/choice.h"

#include "pager/evict/fifo.h"
#include "pager/evict/second_chance.h"
#include "pager/evict/two_queues.h"

namespace comex {

std::unique_ptr<Victims> make_victims(Evict choice, Memory& memory, std::uint64_t most, const Share& share) {
  switch (choice) {
    case Evict::fifo: return std::make_unique<Fifo>(memory, most);
    case Evict::clock: return std::make_unique<SecondChance>(memory, most, share);
    case Evict::two_queues: return std::make_unique<TwoQueues>(memory, most, share);
  }
  return std::make_unique<Fifo>(memory, most);
}

}  // namespace comex
