#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "hgtrain/config/load.h"

#include "train_flags.h"

namespace hgt {

/// A job ready to be started.
struct TrainPlan {
  Config config;  ///< resolved: nothing in it is "auto" any more
  int workers = 1;
  std::int64_t epoch_samples = 0;  ///< of the training data; 0: it was not opened
  std::vector<Problem> notices;
  LoadResult given;  ///< what the config said, before devices and data completed it
};

/// Adds the value of a flag that is short for a key. Error(kConfig) if the key is given with
/// another value.
void add_short_flag(std::vector<std::string>& overrides, const std::string& flag,
                    const std::string& key, const std::string& value);

/// `overrides` and the flags that are short for keys.
std::vector<std::string> all_overrides(const TrainFlags& flags, std::vector<std::string> overrides);

bool has_tokenizer(const std::string& folder);

/// What a job runs on.
struct Devices {
  std::string kind;  ///< "cpu" or "cuda"
  std::int64_t workers = 1;
  int compute_capability = 0;             ///< the smallest of the GPUs'; 0: not known
  std::string notice = {};                ///< why no GPUs are used, if there could be some
  std::int64_t on_one_machine = workers;  ///< the most workers on one machine
};

/// The config that the flags name.
LoadResult load_config_of(const TrainFlags& flags, const LoadOptions& options);

/// Looks for the devices that flags and config ask for, unless it is a dry run. Error(kDevice) if
/// they are not there.
Devices choose_devices(const TrainFlags& flags, const LoadResult& loaded);

/// Fills in what the config leaves to the devices.
void resolve_devices(const LoadResult& loaded, const Devices& devices, Config& config);

/// The notices about the config and about the devices that were found.
std::vector<Problem> notices_of(const LoadResult& loaded, const Devices& devices);

/// The notices as console text: a line each, with its hint on another.
std::string notice_lines(const std::vector<Problem>& notices);

/// "runs/NAME" for NAME.json.
std::string default_run_dir(const std::string& config);

/// Reads and checks everything before anything starts, in this order: command line and config
/// (kConfig), devices (kDevice), data (kData). A dry run looks for no device, and opens data only
/// if it is here and the config takes the vocabulary size from it. A resumed run keeps its
/// train_batch_size unless another one is given.
TrainPlan make_train_plan(const TrainFlags& flags, std::vector<std::string> overrides);

}  // namespace hgt
