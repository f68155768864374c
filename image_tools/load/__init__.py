"""Reconstruction of an image from the XML of `hdfs oiv -p XML` of Hadoop 3.x (`hdfs oiv -p ReverseXML`)."""
