#pragma once

#include <functional>
#include <string>
#include <vector>

namespace hgt {

/// The words without `flag` and its value. Words after -- belong to another program and are kept.
std::vector<std::string> without_flag(const std::vector<std::string>& words,
                                      const std::string& flag);

/// The words without `switches`, which take no value; words after -- are kept.
std::vector<std::string> without_switches(std::vector<std::string> words,
                                          const std::vector<std::string>& switches);

/// The words of `launch` with -- before the program, if they name a script as torchrun and
/// deepspeed take it: FILE.py or, if -m is among the flags before it, MODULE, which python3 runs;
/// or PROGRAM, if --no_python is. Two dashes right before or after that word count as torchrun's,
/// which leaves them out. `takes_value(flag, next)` says whether `next` is the flag's value.
/// Error(kConfig) if both -m and --no_python are given.
std::vector<std::string> with_dashes(
    const std::vector<std::string>& words,
    const std::function<bool(const std::string& flag, const std::string& next)>& takes_value);

/// The words with *** in place of the value in each `--env NAME=VALUE`, which may be a secret.
std::vector<std::string> without_values_of_env(std::vector<std::string> words);

/// Whether the words are those of `hgtrain submit`, whose jobs always resume from their run
/// folder's newest checkpoint.
bool is_submission(const std::vector<std::string>& words);

/// The command line that resumes a training from its run folder's newest checkpoint: the words
/// without their --resume, and --resume auto unless they are a submission.
std::vector<std::string> resuming(const std::vector<std::string>& words);

/// The command line with this value of a key, whether it had one or not.
std::vector<std::string> with_key(const std::vector<std::string>& words, const std::string& key,
                                  const std::string& value);

}  // namespace hgt
