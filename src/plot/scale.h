// From values to places along an axis, and which values to write there.
#pragma once

#include <string>
#include <vector>

namespace comex::plot {

struct Tick {
  double at = 0;
  std::string label;
};

class Scale {
 public:
  enum class Kind { linear, log };

  // Ends that are the same, not finite, or not positive on a logarithmic scale, are replaced by some that can be used.
  Scale(Kind kind, double least, double most);

  // 0 at the least value, 1 at the most, and beyond for values beyond.
  [[nodiscard]] double place(double value) const;
  // Round values inside, about so many.
  [[nodiscard]] std::vector<Tick> ticks(int about) const;
  // The same with ends that are round values themselves.
  [[nodiscard]] Scale rounded(int about) const;

  [[nodiscard]] double least() const { return least_; }
  [[nodiscard]] double most() const { return most_; }

 private:
  [[nodiscard]] double step(int about) const;

  Kind kind_;
  double least_;
  double most_;
};

}  // namespace comex::plot
