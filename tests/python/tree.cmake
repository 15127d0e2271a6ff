# Installs what a wheel would hold into a new TREE, and puts the stand-ins beside their libraries.
file(REMOVE_RECURSE ${TREE})
execute_process(
  COMMAND ${CMAKE_COMMAND} --install ${BUILD} --component python --prefix ${TREE}
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(COPY ${SOURCES}/ DESTINATION ${FAKES} PATTERN __pycache__ EXCLUDE PATTERN class.c EXCLUDE)
# As pip does: programs of a few lines would be compiling for most of their time.
execute_process(
  COMMAND ${PYTHON} -m compileall -q ${TREE}/libmend ${FAKES} COMMAND_ERROR_IS_FATAL ANY)
