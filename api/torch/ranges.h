/* Memory of growable tensors: ranges whose last tensor is gone. */
#ifndef MEND_TORCH_RANGES_H
#define MEND_TORCH_RANGES_H

/* Destroys those that could not be destroyed yet. */
void mend_torch_ranges_settle(void);

#endif
