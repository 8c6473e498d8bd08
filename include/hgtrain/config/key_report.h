#pragma once

#include <string>

namespace hgt {

/// What the program does with a key.
enum class KeyClass {
  kUsed,      ///< changes the run
  kIgnored,   ///< known, but without effect, because hgtrain does not need it: one notice names all
              ///< of them
  kNotBuilt,  ///< not in this version: training refuses it if it is switched on
  kError,     ///< never accepted
};

enum class Severity {
  kError,     ///< the file is wrong
  kNotBuilt,  ///< switches on what this version does not have; only training refuses it
  kMissing,   ///< training needs it; a file made for DeepSpeed alone lacks it
  kNotice,    ///< worth a line
};

/// A problem of a config: what is wrong, where, and how to fix it.
struct Problem {
  Severity severity = Severity::kError;
  std::string message;
  std::string hint;
  std::string file;                 ///< "" for the command line, and if the key is given nowhere
  int line = 0;                     ///< 0: unknown
  std::string pointer;              ///< JSON pointer of the key as it is spelled, "" for none
  bool may_explain_errors = false;  ///< of a notice: it is listed with errors, too

  /// "in FILE:LINE at /pointer", "in --a.b.c on the command line", or "".
  std::string where() const;
};

/// A notice that is not about the place of a key.
Problem notice(std::string message, std::string hint = "");

enum class OriginKind { kDefault, kFile, kFlag, kAuto, kDerived };

/// Where the value of a key comes from.
struct Origin {
  OriginKind kind = OriginKind::kDefault;
  std::string detail;  ///< "FILE:LINE", "--a.b.c", or the rule that gave the value
};

/// One key of the resolved config, or one that was given.
struct KeyReport {
  std::string path;  ///< "optimizer.params.lr", in the canonical spelling
  KeyClass key_class = KeyClass::kUsed;
  bool given = false;        ///< in the file or on the command line
  bool switched_on = false;  ///< kNotBuilt: the value needs what is not built; training refuses it
  bool given_auto = false;   ///< given as "auto"; a rule determined the value
  std::string value;         ///< JSON text
  std::string help;          ///< what it is; of an ignored key: why it has no effect
  Origin origin;
};

}  // namespace hgt
