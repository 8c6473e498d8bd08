#pragma once

#include <exception>
#include <string>
#include <vector>

namespace hgt {

/// What went wrong, and with it the exit status of the program (docs/exit-codes.md).
enum class ErrorKind {
  kInternal = 1,  ///< a bug in hgtrain
  kConfig = 2,    ///< command line or config file
  kDevice = 3,    ///< a device cannot be used, or a limit of the system is reached
  kData = 4,      ///< data or checkpoint damaged, or the final checkpoint could not be written
  kCheck = 5,     ///< a check during training stopped the run: a number is not finite, a hang
  kPeer = 6,      ///< a peer or host became unreachable
};

/// Exit status of a run that stopped early with a valid checkpoint (EX_TEMPFAIL).
inline constexpr int kExitStoppedEarly = 75;

/// The one exception of hgtrain: what is wrong, where, and how to fix it.
///
/// It is thrown for every failure that ends the command. What a caller expects to happen (no
/// checkpoint yet, end of data) is a return value instead. `main` catches once and prints
/// `render()`.
class Error : public std::exception {
 public:
  Error(ErrorKind kind, std::string message, std::string hint = {});

  /// Adds a line of context ("FILE at /json/pointer", which text() prints after "in ", or "host b",
  /// after "on "), innermost first. Use it on the way up:
  /// `catch (Error& e) { e.in("..."); throw; }`
  Error& in(std::string where);

  /// Adds another error in the same input, so that the user learns of all at once from render().
  /// Nothing else has it: not text(), nor a message to another process.
  Error& also(Error other);

  /// Adds a line that may explain this error or those added with also(); only render() has it.
  Error& note(std::string text);

  ErrorKind kind() const noexcept { return kind_; }
  int exit_code() const noexcept { return static_cast<int>(kind_); }
  const std::string& message() const noexcept { return message_; }
  const std::string& hint() const noexcept { return hint_; }
  const std::vector<std::string>& context() const noexcept { return context_; }

  /// The message alone.
  const char* what() const noexcept override { return message_.c_str(); }

  /// "MESSAGE\n  in CONTEXT\n  hint: HINT", without a newline at the end, safe for a terminal. One
  /// that is kInternal ends with a line that asks the user to report it.
  std::string text() const;
  /// "PROGRAM: error: " and the text(), newline at the end; the errors added with also() follow,
  /// then "PROGRAM: note: " and each note().
  std::string render(const std::string& program = "hgtrain") const;

 private:
  ErrorKind kind_;
  std::string message_;
  std::string hint_;
  std::vector<std::string> context_;
  std::vector<Error> others_;
  std::vector<std::string> notes_;
};

}  // namespace hgt
