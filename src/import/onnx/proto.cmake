# Compiles onnx.proto with protoc-c into the build folder and adds the result to the importer's room. Generated code is not held to the
# project's warnings.
find_program(PROTOC_C protoc-c REQUIRED)
set(onnx_proto_source ${CMAKE_CURRENT_LIST_DIR}/onnx.proto)
set(onnx_proto_folder ${CMAKE_BINARY_DIR}/generated/import/onnx)
file(MAKE_DIRECTORY ${onnx_proto_folder})
add_custom_command(
  OUTPUT ${onnx_proto_folder}/onnx.pb-c.c ${onnx_proto_folder}/onnx.pb-c.h
  COMMAND ${PROTOC_C} --proto_path=${CMAKE_CURRENT_LIST_DIR} --c_out=${onnx_proto_folder} ${onnx_proto_source}
  DEPENDS ${onnx_proto_source}
  COMMENT "Generating onnx.pb-c.c"
  VERBATIM)
set_source_files_properties(${onnx_proto_folder}/onnx.pb-c.c PROPERTIES COMPILE_OPTIONS "-w")
target_sources(tn_import_onnx PRIVATE ${onnx_proto_folder}/onnx.pb-c.c ${onnx_proto_folder}/onnx.pb-c.h)
target_include_directories(tn_import_onnx SYSTEM PRIVATE ${onnx_proto_folder})
