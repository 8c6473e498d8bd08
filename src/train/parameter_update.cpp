#include "parameter_update.h"

#include <utility>

#include "hgtrain/base/trace.h"
#include "hgtrain/config/config.h"
#include "hgtrain/optim/ema.h"
#include "hgtrain/optim/norm.h"

namespace hgt {
namespace {

/// The pieces that count in the norm of all ranks.
std::vector<FlatPiece> own_norm_pieces(const Trainer::Parts& parts) {
  std::vector<FlatPiece> pieces = tensor_pieces(parts.table);
  const TensorRank at = tensor_rank(parts.plan);
  return at.size == 1 ? pieces : first_copies(std::move(pieces), parts.table, at);
}

}  // namespace

ParameterUpdate::ParameterUpdate(const Trainer::Parts& parts, const StepExchange& exchange,
                                 Stream updates)
    : parts_(parts),
      exchange_(exchange),
      updates_(updates),
      updated_(parts.plan.updated_slices()),
      sums_squares_(parts.plan.stage() > 0 || parts.plan.shape.pipeline.count > 1 ||
                    parts.plan.layout.tensor_size > 1),
      optimizer_(parts.config.optimizer, parts.table, parts.buffers.optimizer_buffers(), updated_,
                 updates),
      squared_(own_norm_pieces(parts), sums_squares_ ? parts.plan.slices() : std::span(updated_),
               updates),
      graphs_(updates, parts.config.hardware.cuda_graphs) {}

void ParameterUpdate::queue(UnitExchange& units, WaitClock& clock) {
  constexpr auto kUpdate = Action::Kind::kUpdate;
  Communicator& world = *parts_.groups.world;
  Update* const update = exchange_.update();
  if (!sums_squares_) clock.measure([&] { exchange_.sum_losses(world); });
  graphs_.run({kUpdate, 0}, [&] {
    squares_of_pieces(parts_.buffers.gradient_values(), squared_, exchange_.squares(), updates_);
  });
  if (sums_squares_) clock.measure([&] { exchange_.sum_losses_and_squares(world); });
  graphs_.run({kUpdate, 1}, [&] {
    prepare_update(exchange_.losses(), exchange_.squares(), update, updates_);
    optimizer_.prepare(update);
  });
  if (const Tensor norms = optimizer_.norm_parts()) sum_norms(norms, clock);
  graphs_.run({kUpdate, 2}, [&] { change_parameters(units); });
}

/// Sums the norms of each tensor's parts for Lamb. If several tensor ranks have the same part, it
/// counts equally often in both norms, so their ratio is right.
void ParameterUpdate::sum_norms(const Tensor& parts, WaitClock& clock) const {
  const Span span("wait for sums");
  if (parts_.plan.stage() > 0) clock.measure([&] { parts_.groups.data->all_reduce_sum(parts); });
  if (parts_.groups.tensor) parts_.groups.tensor->all_reduce_sum(parts);
}

void ParameterUpdate::change_parameters(UnitExchange& units) {
  const Span span("optimizer", traffic());
  const FlatBuffers& flat = parts_.buffers;
  Update* const update = exchange_.update();
  if (flat.sends_weights())
    step_and_send(units);
  else
    optimizer_.step(update);
  update_ema(parts_.config.training.ema_decay, flat.parameter_values(), flat.ema_values(),
             optimizer_.pieces(), update, updates_);
}

/// A unit's weights are on their way to the device while the next unit is updated.
void ParameterUpdate::step_and_send(UnitExchange& units) {
  const Update* const update = exchange_.update();
  if (update->skip != 0) return;
  const std::vector<Unit>& all = parts_.plan.shape.units;
  for (std::size_t unit = 0; unit < all.size(); ++unit) {
    optimizer_.step(update, all[unit].elements);
    units.send(static_cast<int>(unit));
  }
  units.finish_sending();
}

/// Gradients are read; parameters and the optimizer's state are read and written; weights written.
Work ParameterUpdate::traffic() const {
  const FlatBuffers& flat = parts_.buffers;
  std::size_t bytes = sizeof(float) + 2 * size_of(flat.spec.parameters.dtype);
  for (const FlatBufferSpec& buffer : flat.spec.state) bytes += 2 * size_of(buffer.dtype);
  if (flat.spec.rounded) bytes += size_of(flat.spec.rounded->dtype);
  return {.bytes =
              static_cast<double>(bytes) * static_cast<double>(optimizer_.pieces().own_elements())};
}

}  // namespace hgt
