/* Memory of growable tensors: ranges whose last tensor is gone. */
#ifndef MEND_TORCH_RANGES_H
#define MEND_TORCH_RANGES_H

/* Destroys ranges that could not be destroyed before. */
void mend_torch_ranges_settle(void);

#endif
